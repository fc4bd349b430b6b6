package orchestrator

import (
	"fmt"
	"hash/fnv"
)

// The kinds of the objects in the store.
const (
	kindWebApp     = "WebApp"
	kindDeployment = "Deployment"
	kindService    = "Service"
)

// Resource is what is wanted of something, and what there is of it.
type Resource[Spec, Status comparable] struct {
	Spec   Spec
	Status Status `store:"status"` // controllers write it, and nobody else
}

type (
	// WebApp is what somebody wants to run, as a manifest says it. It owns a Deployment and a Service of its own name.
	WebApp = Resource[WebAppSpec, WebAppStatus]

	// Deployment keeps replicas of one program alive.
	Deployment = Resource[DeploymentSpec, DeploymentStatus]

	// Service makes the ready replicas of a Deployment reachable at one port.
	Service = Resource[ServiceSpec, ServiceStatus]
)

// WebAppSpec is what is wanted.
type WebAppSpec struct {
	Replicas int
	Port     int
	Message  string
}

// WebAppStatus is what there is.
type WebAppStatus struct {
	Phase   Phase
	Ready   int    // replicas that answer their health check
	Address string // where the app can be reached, "" while it cannot
	Problem string // why the phase is Degraded
}

// Phase is how a WebApp is doing, in a word.
type Phase string

const (
	Pending   Phase = "Pending"   // nothing of it is ready yet
	Deploying Phase = "Deploying" // on the way to what is wanted
	Running   Phase = "Running"   // all is as it is wanted
	Degraded  Phase = "Degraded"  // it was Running, or could not get there, and something is missing now
)

// DeploymentSpec is what is wanted. Replicas whose message differs are of another revision and are replaced.
type DeploymentSpec struct {
	Replicas int
	Message  string
}

// Revision names what a replica must be to be one of this spec. The number of replicas is no part of it.
func (s DeploymentSpec) Revision() string {
	h := fnv.New32a()
	h.Write([]byte(s.Message))
	return fmt.Sprintf("%08x", h.Sum32())
}

// DeploymentStatus is what there is.
type DeploymentStatus struct {
	Ready   int            // replicas that answer their health check, of any revision
	Rolled  DeploymentSpec // the spec that was last reached in full
	Reached bool           // whether any spec was
}

// ServiceSpec is what is wanted.
type ServiceSpec struct {
	Port int
}

// ServiceStatus is what there is.
type ServiceStatus struct {
	Address  string // where the load balancer listens, "" while it does not
	Backends int
	Problem  string // why it does not listen at Spec.Port
}

// statusOf derives the status of an app from those of its children. A child that is not there yet has a zero status.
func statusOf(app WebAppSpec, d Deployment, s Service) WebAppStatus {
	status := WebAppStatus{Ready: d.Status.Ready, Address: s.Status.Address, Problem: s.Status.Problem}
	want := DeploymentSpec{Replicas: app.Replicas, Message: app.Message}
	switch {
	case status.Problem != "":
		status.Phase = Degraded
	case !d.Status.Reached && d.Status.Ready == 0:
		status.Phase = Pending
	case d.Status.Rolled != want || s.Spec.Port != app.Port || s.Status.Address == "":
		status.Phase = Deploying
	case d.Status.Ready < app.Replicas:
		status.Phase = Degraded
		status.Problem = fmt.Sprintf("%d of %d replicas are ready", d.Status.Ready, app.Replicas)
	case s.Status.Backends < app.Replicas:
		status.Phase = Deploying // the load balancer has still to hear of some
	default:
		status.Phase = Running
	}
	return status
}
