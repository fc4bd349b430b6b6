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
// for each fault at each of these positions, and then for random pairs of those that were silent:
//
//	crash-before, crash-after   the process ends before or after a write; a new one starts with empty caches
//	down                        as crash-after; the new process starts after the next step of the user
//	restart                     the process ends after a step of the user, and a new one starts
//	lose-request, lose-reply    a write fails with ErrLost, and was not applied, or was
//	conflict                    somebody writes the object right before
//	slow                        a write takes a minute; everything else goes on
//	pause                       the process stands still for eleven minutes before a write or a read; everything else goes on
//	zombie                      the process hangs; a new one takes over; then the old one finishes its reconcile
//	lose-lease                  the process loses its lease and does not know; a new one takes over; both go on until the old one
//	                            notices, 10 s later or after the next step of the user
//	late                        the process ends while an effect is on its way; the effect arrives when a new one has taken over
//	lag                         from a write on, the caches of a kind hear nothing until nothing else is left to do
//	travel                      as crash-after; the caches of the new process begin in the past, and then catch up
//	gap                         a watch breaks, and the list after it merges several changes of an object
//	read-fails                  a read of the store fails
//
// lose-lease and late are for systems with a Lease: each process of such a system has a leadership with the next term.
//
// In the text of a plan, skip(step#2) means that the user leaves out the second step.
//
// Each of these happens to real systems, and each is within the contract of a store and of its watches: per kind, changes arrive in
// order, none is lost but by a list that replaces it, the last state always arrives, and a read of a store sees every write.
//
// # Failures
//
// A plan fails if it breaks one of the [Rules]. Some are yours: Always and Goal. The others hold for every controller: the objects
// at the end are those of the run without faults, unless there is a Goal; no object is left whose owners are gone; the systems become
// quiet; and so on. Each [Rule] says what it means if it is broken. One that is a [Bug] fails the test, one that is an [Advisory] is
// logged.
//
// Of each sort of failure, the kit reports one plan and counts the others. It makes that plan smaller as long as it fails in the same
// way: with fewer faults, fewer steps of the user, and earlier faults. It runs each failing plan twice, and says so if the runs differ.
//
// Faults end. If a rule is broken only while a cache lags for more than 100 reconciles or a minute, the failure is an advisory.
//
// The kit never proves that there is no bug. It tries every single fault of the runs that your steps lead to. A short script
// with few objects finds most bugs (the systems are deterministic, so nothing is gained by repetition).
//
// [Run] keeps the plans that failed in testdata/simtest, in a directory for each test, and tries them first. The text of a plan is
// also that of a file; lines that begin with "#" are comments. The flag -simtest.html=DIRECTORY draws each failure on a page.
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
// controllers (controller.Controller.Step): first every cache reads what it may, then the first key that is ready is reconciled.
// No goroutine of the kit runs beside the one that acts.
//
// In run mode (World.Mode, or the flag -simtest.mode=run), manager.Manager runs the same systems: with the goroutines of informers and
// workers, an election for each process of a system with a Lease, and a stop in order at the end and at a restart. The kit still
// decides what happens when. Each call of the Env waits for its turn, and controllers are paused until it is theirs. Run mode
// tests more, and takes about twice as long. A failure in one mode is one in the other, except for what only run mode has: a part
// that ends by itself or does not stop, and several workers.
//
// The idea is that of Sieve (Sun and others, OSDI 2022), which found 46 bugs in ten Kubernetes controllers with three of these
// faults.
package simtest
