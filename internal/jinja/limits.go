package jinja

// Limits bound what one render may cost. A zero field takes its default.
type Limits struct {
	Output int // bytes written, including text captured on the way. If zero, 16 MiB.
	Steps  int // work done, in units of up to 50 ns: statements, iterations, bytes looked at. If zero, 10 million.
	Build  int // bytes of intermediate strings, lists and dicts. If zero, 256 MiB.
}

// Fixed bounds of the language.
const (
	maxSource    = 1 << 20 // bytes of template source
	maxCalls     = 400     // nesting of macro calls
	maxRange     = 100000  // elements of range(), as in Jinja's sandbox
	maxIntDigits = 4300    // decimal digits of an int, as in Python
	maxIntBits   = 14286   // bits of a result that may still have maxIntDigits
	maxDepth     = 500     // nesting of a value that is compared or printed
	maxKey       = 1000    // values inside a tuple that is a dict key
	valueSize    = 24      // bytes of a Value, for Limits.Build
	objectSize   = 64      // bytes of a list, dict, range or namespace without what is in it
	loopSize     = 192     // bytes of a loop
)

func (l Limits) withDefaults() Limits {
	if l.Output == 0 {
		l.Output = 16 << 20
	}
	if l.Steps == 0 {
		l.Steps = 10_000_000
	}
	if l.Build == 0 {
		l.Build = 256 << 20
	}
	return l
}

var (
	errOutput = errf(KindLimit, "template output is larger than the limit")
	errSteps  = errf(KindLimit, "template runs longer than the limit")
	errBuild  = errf(KindLimit, "template builds more data than the limit")
	errDeep   = errf(KindRecursion, "maximum recursion depth exceeded")
)

// spend counts n steps.
func (st *state) spend(n int) error {
	if st.steps -= n; st.steps < 0 {
		return errSteps
	}
	return nil
}

// build counts n bytes of intermediate data, and the steps to make them.
func (st *state) build(n int) error {
	if n < 0 || n > st.buildLeft {
		return errBuild
	}
	st.buildLeft -= n
	return st.spend(n >> 6)
}

// buildFrame counts the memory of a frame that lasts until the render ends.
func (st *state) buildFrame(fn *fnInfo) error {
	if !fn.escapes {
		return nil
	}
	return st.build(objectSize + valueSize*fn.slots)
}

// list makes a list value, counting its memory.
func (st *state) list(items []Value) (Value, error) {
	return st.mem.list(List, items), st.build(objectSize + valueSize*len(items))
}

// str makes a str value, counting its memory.
func (st *state) str(s string) (Value, error) {
	return FromString(s), st.build(len(s))
}
