package expediter

import (
	"cmp"
	"time"

	"github.com/expediterhq/expediter/admission"
	"github.com/expediterhq/expediter/prefix"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/vllm"
)

// pool is one Pool made ready to serve: its parts, and what was learned.
type pool struct {
	Pool
	replicas *registry.Pool
	outputs  *admission.Outputs
	own      *admission.Controller // the Admitter, where the Config brought none
	slots    *slots                // who holds the slots of Prefix
	lacks    *lacks                // who does not serve what
	tasks    *tasks                // what goes on in the background; nil until the pool is served
}

// newPool fills in the parts that pc leaves out; from before, the same
// pool's earlier form, it takes those that were made for it.
func newPool(pc Pool, rp *registry.Pool, before *pool) (*pool, error) {
	p := &pool{Pool: pc, replicas: rp, outputs: new(admission.Outputs), slots: new(slots), lacks: new(lacks)}
	p.DefaultMaxTokens = cmp.Or(p.DefaultMaxTokens, 1024)
	p.MaxWait = cmp.Or(p.MaxWait, 30*time.Second)
	if before != nil && before.replicas == rp {
		p.outputs, p.lacks = before.outputs, before.lacks
		p.tasks = before.tasks
		p.Router = cmp.Or(p.Router, before.Router)
		if p.Prefix == nil || same(p.Prefix, before.Prefix) {
			p.Prefix, p.slots = before.Prefix, before.slots
		}
		if p.Admitter == nil && before.own != nil {
			p.own, p.Admitter = before.own, before.Admitter
		}
		if p.Transport == nil {
			p.Transport = before.Transport
		}
	}
	if p.Router == nil {
		p.Router = router.New(router.Config{})
	}
	if p.Prefix == nil {
		p.Prefix = prefix.NewTable(prefix.TableConfig{})
	}
	if p.Transport == nil {
		p.Transport = vllm.NewTransport(vllm.TransportConfig{})
	}
	if p.Admitter == nil {
		c, err := admission.NewController(admission.Config{})
		if err != nil {
			return nil, err
		}
		p.own, p.Admitter = c, c
	}
	return p, nil
}
