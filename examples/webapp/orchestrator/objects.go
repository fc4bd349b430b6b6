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

// Resource is a desired state and the actual state.
type Resource[Spec, Status comparable] struct {
	Spec   Spec
	Status Status `store:"status"` // written only by controllers
}

type (
	// WebApp is the desired state in a manifest. It owns a Deployment and a Service with the same name.
	WebApp = Resource[WebAppSpec, WebAppStatus]

	// Deployment keeps replicas of one program alive.
	Deployment = Resource[DeploymentSpec, DeploymentStatus]

	// Service makes the ready replicas of a Deployment reachable at one port.
	Service = Resource[ServiceSpec, ServiceStatus]
)

// WebAppSpec is the desired state.
type WebAppSpec struct {
	Replicas int
	Port     int
	Message  string
}

// WebAppStatus is the actual state.
type WebAppStatus struct {
	Phase   Phase
	Ready   int    // replicas that answer their health check
	Address string // where the app can be reached, "" while it cannot
	Problem string // why the phase is Degraded
}

// Phase summarizes the state of a WebApp in a word.
type Phase string

const (
	Pending   Phase = "Pending"   // no part of it is ready yet
	Deploying Phase = "Deploying" // on the way to the desired state
	Running   Phase = "Running"   // in the desired state
	Degraded  Phase = "Degraded"  // it was Running, or could not get there, and a part is missing now
)

// DeploymentSpec is the desired state. Replicas with another message are of another revision and are replaced.
type DeploymentSpec struct {
	Replicas int
	Message  string
}

// Revision identifies the spec of a replica. It does not depend on the number of replicas.
func (s DeploymentSpec) Revision() string {
	h := fnv.New32a()
	h.Write([]byte(s.Message))
	return fmt.Sprintf("%08x", h.Sum32())
}

// DeploymentStatus is the actual state.
type DeploymentStatus struct {
	Ready   int            // replicas that answer their health check, of any revision
	Rolled  DeploymentSpec // the spec that was last reached in full
	Reached bool           // whether any spec was
}

// ServiceSpec is the desired state.
type ServiceSpec struct {
	Port int
}

// ServiceStatus is the actual state.
type ServiceStatus struct {
	Address  string // where the load balancer listens, "" while it does not
	Backends int
	Problem  string // why it does not listen at Spec.Port
}

// statusOf derives the status of an app from those of its children. A child that does not exist yet has a zero status.
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
		status.Phase = Deploying // the load balancer does not know all of them yet
	default:
		status.Phase = Running
	}
	return status
}
