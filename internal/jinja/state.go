package jinja

import (
	"errors"
	"time"
)

// state is one render.
type state struct {
	out       []byte
	base      int // out is the caller's up to here
	limit     int // of len(out)
	steps     int
	buildLeft int
	calls     int
	now       time.Time
	ctx       []Value // by position in Template.ctxNames
	frame     *frame
	free      *frame
	slab      []Value // slots of frames that do not escape
	args      []Value // stack of call arguments
	kws       []kwVal // stack of keyword arguments
	mem       memory  // of the values made on the way
	memo      memo
	kept      *texts
	keeping   bool // a text that will be kept is being written
	undefined int  // macros of the template that are not defined yet
}

// frame holds the variables of one function call.
type frame struct {
	slots  []Value
	parent *frame
	next   *frame // free list
}

var (
	errBreak    = errors.New("jinja: break")
	errContinue = errors.New("jinja: continue")
)

func (st *state) start(t *Template, dst []byte, env *Env) {
	l := env.Limits.withDefaults()
	st.out, st.base, st.limit = dst, len(dst), len(dst)+l.Output
	st.steps, st.buildLeft = l.Steps, l.Build
	st.calls = 0
	st.kept, st.undefined = &t.kept, t.macros
	st.now = env.Now
	st.ctx = st.ctx[:0]
	for _, name := range t.ctxNames {
		st.ctx = append(st.ctx, env.lookup(name))
	}
}

// maxKept bounds the scratch memory, in values, that a state keeps for the
// next render.
const maxKept = 4096

func (st *state) finish() {
	clear(st.ctx)
	st.out, st.frame, st.kept = nil, nil, nil
	st.args, st.kws, st.slab = keep(st.args), keep(st.kws), keep(st.slab)
	st.mem.reset()
	st.memo.reset()
}

func keep[T any](s []T) []T {
	if cap(s) > maxKept {
		return nil
	}
	s = s[:cap(s)]
	clear(s)
	return s[:0]
}

func (st *state) run(t *Template) error {
	f, mark := st.push(t.root, nil)
	defer st.pop(f, mark, t.root)
	st.enter(t.root.in)
	return st.exec(t.body)
}

// push makes a frame for a function whose parent frame is given, and makes it
// the current one.
func (st *state) push(fn *fnInfo, parent *frame) (*frame, int) {
	if fn.escapes {
		f := st.mem.frame()
		f.slots, f.parent = st.mem.values(fn.slots), parent
		st.frame = f
		return f, -1
	}
	f := st.free
	if f == nil {
		f = new(frame)
	} else {
		st.free = f.next
	}
	mark := len(st.slab)
	if mark+fn.slots > cap(st.slab) {
		st.slab = make([]Value, 0, max(256, 2*cap(st.slab), fn.slots)) // old slots stay with their frames
		mark = 0
	}
	st.slab = st.slab[:mark+fn.slots]
	f.slots, f.parent, f.next = st.slab[mark:mark+fn.slots:mark+fn.slots], parent, nil
	for i := range f.slots {
		f.slots[i].kind = Missing // the rest stays from the last frame here
	}
	st.frame = f
	return f, mark
}

// pop releases a frame. The caller restores st.frame.
func (st *state) pop(f *frame, mark int, fn *fnInfo) {
	if mark < 0 {
		return
	}
	if len(st.slab) >= mark+fn.slots && fn.slots > 0 && &st.slab[mark] == &f.slots[0] {
		st.slab = st.slab[:mark]
	}
	f.slots, f.parent, f.next = nil, nil, st.free
	st.free = f
}

// enter sets the variables of a scope to their first values.
func (st *state) enter(in scopeInit) {
	for i := range in {
		si := &in[i]
		var v Value
		switch si.mode {
		case initAlias:
			v = *st.slot(si.from)
		case initResolve:
			v = st.ctx[si.ctx]
		}
		st.frame.slots[si.slot] = v
	}
}

func (st *state) slot(r ref) *Value {
	f := st.frame
	for range r.up {
		f = f.parent
	}
	return &f.slots[r.slot]
}

func (st *state) write(s string) error {
	if len(st.out)+len(s) > st.limit {
		return errOutput
	}
	st.out = append(st.out, s...)
	return nil
}

// capture runs f and returns what it wrote as a str.
func (st *state) capture(f func() error) (Value, error) {
	mark := len(st.out)
	if err := f(); err != nil {
		st.out = st.out[:mark] // a break may leave from inside
		return Value{}, err
	}
	return st.captured(mark)
}

// captured takes back the output written since mark.
func (st *state) captured(mark int) (Value, error) {
	s := st.mem.copied(st.out[mark:])
	st.out = st.out[:mark]
	return st.str(s)
}
