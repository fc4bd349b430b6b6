package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-go/setpoint/examples/tenants/cloud"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// The kinds of objects.
const (
	kindTenant   = "Tenant"
	kindResource = "Resource"
)

type (
	// Row is a row of the table tenants: the desired state. This program only reads it.
	Row struct {
		Customer string // the customer, who pays
		Name     string // one of the customer's tenants
		Plan     string // a key of plans
		Region   string // the wanted region in the cloud
	}

	// Tenant is the state that this program keeps for a row, and its report. It outlives its row, until nothing in the cloud is
	// left of it.
	Tenant struct {
		Row        Row
		Conditions store.Conditions `store:"status"` // Ready
	}

	// Resource is a resource of a tenant in the cloud. Its owner is the Tenant.
	Resource struct {
		Kind       string
		Region     string
		Conditions store.Conditions `store:"status"` // InCloud: whether it is, and if not, why
		Revision   informer.Version `store:"status"` // of the cloud since which it has this Resource
	}
)

// plans says which resources a tenant has.
var plans = map[string][]string{
	"free": {"bucket"},
	"pro":  {"bucket", "database", "dns"},
}

// Key is the key of a row, and of its Tenant.
func (r Row) Key() string { return r.Customer + "/" + r.Name }

// customer is the group of a key, so that customers take turns.
func customer(key string) string {
	name, _, _ := strings.Cut(key, "/")
	return name
}

// tenantOf returns the key of the tenant of a resource.
func tenantOf(resource string) string { return resource[:max(strings.LastIndexByte(resource, '/'), 0)] }

// errNoPlan says that only a change of the row can help.
var errNoPlan = errors.New("there is no plan")

// resources returns what a tenant should have, by key.
func (t Tenant) resources() (map[string]Resource, error) {
	kinds, ok := plans[t.Row.Plan]
	if !ok {
		return nil, fmt.Errorf("%w %q", errNoPlan, t.Row.Plan)
	}
	want := make(map[string]Resource, len(kinds))
	for _, kind := range kinds {
		want[t.Row.Key()+"/"+kind] = Resource{Kind: kind, Region: t.Row.Region}
	}
	return want, nil
}

// pending reports whether a resource needs a call of the cloud: to make, change, or remove it.
func pending(r store.Object[Resource]) bool {
	if !r.Deleting.IsZero() {
		return slices.Contains(r.Finalizers, cleanup)
	}
	return !r.Value.Conditions.AllOK(r.Generation, "InCloud")
}

// lost reports whether a list of the cloud shows that a resource differs from the one that this program has made. A list from
// before that shows nothing.
func lost(r store.Object[Resource], actual cloud.Resource, listed informer.Version) bool {
	return !pending(r) && listed >= r.Value.Revision && (actual.Region != r.Value.Region || actual.Kind != r.Value.Kind)
}
