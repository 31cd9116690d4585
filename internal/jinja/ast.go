package jinja

// expr is an expression. eval returns its value; it never returns Missing.
type expr interface {
	eval(st *state) (Value, error)
}

// stmt is a statement. exec writes its output to st; the sentinel errors
// errBreak and errContinue leave a loop body early.
type stmt interface {
	exec(st *state) error
}

// ref is a resolved variable: slot in the frame up levels above the current
// one.
type ref struct{ up, slot int }

type (
	nameExpr struct {
		name string
		line int
		ref  ref
		u    *undef
	}
	constExpr struct{ v Value }
	listExpr  struct {
		kind  Kind // List or Tuple
		items []expr
		lit   Value // the value, if all items are literals; lists never change
	}
	dictExpr struct {
		pairs [][2]expr
		line  int
	}
	attrExpr struct {
		x    expr
		name string
		line int
		key  Value
		u    *undef
		base *nameExpr // x, if that is a variable
		dict bool      // name is a method of dict
		on   kindSet   // kinds that have a method of this name to call
	}
	itemExpr struct {
		x, arg expr
		line   int
		key    Value     // value of arg if that is a str literal
		base   *nameExpr // x, if that is a variable
		u      *undef    // for key
		dict   bool      // key may be an attribute of dict
	}
	sliceExpr struct {
		x            expr
		lo, hi, step expr
		line         int
	}
	callExpr struct {
		fn   expr
		args callArgs
		line int
		get  bool // calls get with one or two arguments
	}
	filterExpr struct {
		x    expr // nil for a filter block
		name string
		fn   filterFunc
		args callArgs
		line int
	}
	testExpr struct {
		x     expr
		name  string
		fn    testFunc
		on    kindSet // not empty: the test holds for these kinds and no others
		args  callArgs
		line  int
		check kindCheck
	}
	condExpr struct {
		cond, yes, no expr // no may be nil
		line          int
	}
	notExpr struct {
		x     expr
		check kindCheck
	}
	logicExpr struct {
		or    bool
		l, r  expr
		check kindCheck
	}
	unaryExpr struct {
		op   byte
		x    expr
		line int
	}
	binExpr struct {
		op   operator
		l, r expr
		line int
	}
	concatExpr struct {
		parts []expr
		line  int
	}
	compareExpr struct {
		x    expr
		ops  []compareOp
		line int
		str  Value // not Missing: x is compared for equality with this str
	}
	compareOp struct {
		op operator
		x  expr
	}
)

// callArgs are the arguments of a call, filter or test.
type callArgs struct {
	pos   []expr
	kw    []kwArg
	dyn   expr // *args
	dynKW expr // **kwargs
}

type kwArg struct {
	name string
	x    expr
}

type (
	dataStmt   struct{ text string }
	outputStmt struct {
		x    expr
		line int
	}
	ifStmt struct {
		cond  expr
		check kindCheck // cond, if it is one
		body  []stmt
		elif  []*ifStmt
		alt   []stmt
		line  int
	}
	forStmt struct {
		target    target
		testOn    target // the same names in the scope of the test
		iter      expr
		test      expr
		body, alt []stmt
		recursive bool
		usesLoop  bool
		line      int
		loopRef   ref
		fn        *fnInfo // for a recursive loop: its body is a function
		in        scopeInit
		testIn    scopeInit
		altIn     scopeInit
	}
	setStmt struct {
		target target
		x      expr
		line   int
	}
	setBlockStmt struct {
		target target
		filter *filterExpr
		body   []stmt
		line   int
		in     scopeInit
	}
	macroStmt struct {
		name string
		m    *macroInfo
		ref  ref
		top  bool // not inside another statement
	}
	callStmt struct {
		call *callExpr
		m    *macroInfo
		line int
	}
	filterStmt struct {
		filter *filterExpr
		body   []stmt
		line   int
		in     scopeInit
	}
	withStmt struct {
		targets []target
		values  []expr
		body    []stmt
		line    int
		in      scopeInit
	}
	scopeStmt struct { // the generation tag
		body []stmt
		in   scopeInit
	}
	jumpStmt struct{ err error }
)

// target is what an assignment stores to: a name, an attribute of a
// namespace, or a tuple of targets.
type target struct {
	name  string
	attr  string // namespace attribute, if not empty
	tuple []target
	multi bool // a tuple, even if empty
	line  int
	ref   ref
}

// macroInfo is a macro, or the body of a call block.
type macroInfo struct {
	name      string
	params    []string
	defaults  []expr // for the last len(defaults) params
	body      []stmt
	line      int
	fn        *fnInfo
	paramRefs []int // slots
	varargs   int   // slots; -1 if the body does not use them
	kwargs    int
	caller    int
	plain     bool     // none of the three is used
	pure      bool     // see markPure
	fixed     bool     // pure, and reads no variable of the render
	id        int      // differs between the macros of a template
	u         []*undef // per parameter: why it is undefined when not given
}

// fnInfo is the frame layout of a function: the template itself, a macro, a
// call block or a recursive loop.
type fnInfo struct {
	slots   int
	escapes bool // a function made inside may outlive a call
	in      scopeInit
}

// scopeInit says how the variables of a scope start out.
type scopeInit []slotInit

type slotInit struct {
	slot int
	mode initMode
	from ref // alias: the outer variable
	ctx  int // resolve: position in the template's context names
}

type initMode uint8

const (
	initMissing initMode = iota
	initAlias
	initResolve
)

// operator is a binary operator.
type operator uint8

const (
	opNone operator = iota
	opAdd
	opSub
	opMul
	opDiv
	opFloorDiv
	opMod
	opPow
	opEq
	opNe
	opLt
	opLe
	opGt
	opGe
	opIn
	opNotIn
)

// String returns the operator as Python writes it.
func (o operator) String() string { return operatorNames[o] }

var operatorNames = [...]string{"", "+", "-", "*", "/", "//", "%", "** or pow()", "==", "!=", "<", "<=", ">", ">=", "in", "not in"}

// arithmetic returns the operator for a token.
func arithmetic(s string) operator {
	switch s {
	case "+":
		return opAdd
	case "-":
		return opSub
	case "*":
		return opMul
	case "/":
		return opDiv
	case "//":
		return opFloorDiv
	case "%":
		return opMod
	case "**":
		return opPow
	}
	return opNone
}

// comparison returns the operator for a token.
func comparison(s string) operator {
	switch s {
	case "==":
		return opEq
	case "!=":
		return opNe
	case "<":
		return opLt
	case "<=":
		return opLe
	case ">":
		return opGt
	case ">=":
		return opGe
	}
	return opNone
}
