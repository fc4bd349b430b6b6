// Package simtest breaks your controllers before production does. You hand over the real controllers, what the user does, and what
// must hold. The kit runs them in simulated time, once for every fault at every position, and shows each failure as a timeline
// that can be run again.
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
//				Steps: []simtest.Step{{Name: "create", Do: func(ctx context.Context, user *simtest.User) error {
//					_, err := simtest.Open[Site](user, "site").Create(ctx, store.Object[Site]{Key: "a", Value: Site{Servers: 2}})
//					return err
//				}}},
//			}
//		})
//	}
//
// The directory classics has six bugs of well-known operators, each as a program that the kit breaks and a fix that it does not.
//
// # Faults
//
// First the kit runs the world without faults, and notes every write, effect, and read of the systems. Then it runs the world again
// for each [Fault] at each of these positions, and then for random pairs of those that were silent.
//
// Each fault happens to real systems, and is within the contract of a store and of its watches: per kind, changes arrive in
// order, none is lost but by a list that replaces it, the last state always arrives, and a read of a store sees every write.
//
// # Failures
//
// A plan fails if it breaks one of the [Rules]. Some are yours: Always and Goal. The others hold for every controller: the objects
// at the end are those of the run without faults, unless there is a Goal; no object is left whose owners are gone; the systems become
// quiet; and so on. Each [Rule] says what it means if it is broken. One that is a [Bug] fails the test, one that is an [Advisory] is
// logged. [Failure] says what is reported, and [Run] where plans that failed are kept.
//
// The kit never proves that there is no bug. It tries every single fault of the runs that your steps lead to. A short script
// with few objects finds most bugs (the systems are deterministic, so nothing is gained by repetition).
//
// # Guarantees
//
//  1. The same plan gives the same run, if the systems range over no map, use no random number, and make no concurrent calls of
//     the Env within a reconcile. Explore runs the world without faults twice, and reports a difference.
//  2. Nothing that a process does after its end has an effect: its next call of the Env ends the goroutine (runtime.Goexit).
//     What a process keeps in package variables survives it: the kit cannot see that.
//  3. Faults end: a cache that lags catches up when nothing else is left to do, and a process that is down comes back. So a system
//     that does nothing wrong reaches its goal under every plan.
//  4. A Trusted system, the user, and Always and Goal suffer no fault, and see the truth.
//  5. Both modes have the same faults, and find the same failures with them.
//  6. Time is simulated: a run takes as long as its work. Retries, timeouts, and delays happen when they are due.
//
// # How it works
//
// Each run is a bubble of testing/synctest, with one log of commits. The kit steps the real informers (informer.Steps) and
// controllers (controller.Controller.Step), or has the real manager.Manager run them: see World.Mode. The idea is that
// of Sieve (Sun and others, OSDI 2022), which found 46 bugs in ten Kubernetes controllers with three of these faults.
package simtest
