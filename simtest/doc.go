// Package simtest breaks your controllers before production does. You hand over the real controllers, the actions of the user, and the
// conditions that must hold. The kit runs them in simulated time, once for every fault at every position. It shows each failure as a
// timeline that you can replay.
//
// # Usage
//
//	func TestSitesSurviveFaults(t *testing.T) {
//		simtest.Run(t, func() simtest.World {
//			return simtest.World{
//				Systems: []simtest.System{{Name: "sites", New: func(env *simtest.Env) ([]simtest.Part, error) {
//					c, err := NewSites(simtest.Open[Site](env, "site"), simtest.Open[Server](env, "server"))
//					return []simtest.Part{simtest.Loop(c)}, err
//				}}},
//				Steps: []simtest.Step{simtest.Create("site", store.Object[Site]{Key: "a", Value: Site{Servers: 2}})},
//			}
//		})
//	}
//
// The directory classics has six bugs of well-known operators, each as a program that the kit breaks and a fix that it does not break.
//
// # Faults
//
// First the kit runs the world without faults, and records every write, effect, and read of the systems. Then it runs the world again for
// each [Fault] at each of these positions, and finally for random pairs of the faults that broke nothing.
//
// Each fault happens to real systems, and is within the contract of a store and of its watches. Per kind, changes arrive in order. None is
// lost, except that a list may replace several. The last state always arrives, and a read of a store sees every write.
//
// # Replicas
//
// If replicas of a program share its keys by slots (manager.Config.Shards), the World has a system for each: [Replicas], with [System.Slots]. Slots
// move when a process ends, hangs, or loses its leases, which are faults of any system with a Lease, and by the fault move. The kit prepares a
// slot with the controllers themselves (controller.Controller.Prepare, Acquired, and Revoked), so informers that are divided follow the slots.
//
// # Failures
//
// A plan fails if it breaks one of the [Rules]. Always and Goal are rules of your own. The others hold for every controller: unless there
// is a Goal, the objects at the end are those of the run without faults; no object is left whose owners are deleted; the systems become quiet;
// and so on. Each [Rule] says what breaking it means. A broken [Bug] rule fails the test, and a broken [Advisory] rule is logged. [Failure]
// describes a report, and [Run] says where failed plans are kept.
//
// The kit never proves that there is no bug. It tries every single fault of the runs that your steps lead to. A short script with few
// objects finds most bugs. The systems are deterministic, so repeating a step adds nothing.
//
// # Guarantees
//
//  1. The same plan gives the same run. For that, the systems must not range over a map, use random numbers, or call the Env
//     concurrently within a reconcile. Explore runs the world without faults twice, and reports a difference.
//  2. A process has no effect after its end, except a call that the faults late and regain have put on its way: the next call of the Env
//     ends the goroutine (runtime.Goexit). Package variables survive a process, because the kit cannot see them.
//  3. Faults end: a lagging cache catches up when nothing else is left to do, and a process that is down comes back. So a system
//     without bugs reaches its goal under every plan.
//  4. A Trusted system, the user, and Always and Goal suffer no fault. The user, Always, and Goal read the stores directly.
//  5. Both modes have the same faults, and find the same failures with them.
//  6. Time is simulated: a run takes as long as its work. Retries, timeouts, and delays happen when they are due.
//
// # How it works
//
// Each run is a bubble of testing/synctest, with one log of commits. The kit steps the real informers (informer.Steps) and
// controllers (controller.Controller.Step), or has the real manager.Manager run them: see World.Mode. The idea is that
// of Sieve (Sun and others, OSDI 2022), which found 46 bugs in ten Kubernetes controllers with three of these faults.
package simtest
