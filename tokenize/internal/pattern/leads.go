package pattern

// leads is a set of bytes: those that a match can start with.
type leads [4]uint64

func (l *leads) has(b byte) bool { return l[b>>6]>>(b&63)&1 != 0 }

// addLeads adds the bytes that a match of n can start with. It reports whether
// n can match the empty text, so that what follows n counts too.
func (n *node) addLeads(l *leads) (empty bool) {
	switch n.kind {
	case kindSet:
		l[0] |= n.set.ascii[0]
		l[1] |= n.set.ascii[1]
		l[2], l[3] = ^uint64(0), ^uint64(0) // any character outside ASCII
		return false
	case kindAhead, kindNotAhead:
		return true
	case kindRepeat:
		return n.sub[0].addLeads(l) || n.min == 0
	case kindAlternatives:
		for _, sub := range n.sub {
			empty = sub.addLeads(l) || empty
		}
		return empty
	}
	for _, sub := range n.sub {
		if !sub.addLeads(l) {
			return false
		}
	}
	return true
}
