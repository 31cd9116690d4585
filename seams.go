package expediter

import (
	"github.com/expediterhq/expediter/admission"
	"github.com/expediterhq/expediter/prefix"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/tenant"
)

// The five seams. A Config takes any implementation of each; the packages
// that define them hold the contract and the implementations that ship.
type (
	// Scorer adds to each replica's cost, in seconds of delay, what sending
	// it a request would cost. See package router.
	Scorer = router.Scorer

	// Admitter decides who may start, in what order, and when to say no.
	// See package admission.
	Admitter = admission.Admitter

	// Registry names the pools of replicas. See package registry.
	Registry = registry.Registry

	// PrefixMap knows which replica holds which prompt blocks. See package
	// prefix.
	PrefixMap = prefix.Map

	// QuotaStore reserves and settles tokens. See package quota.
	QuotaStore = quota.Store
)

// Tenant is the caller on whose account a request runs. See package tenant.
type Tenant = tenant.Tenant
