package jinja

// IteratesContent reports whether the template loops over the content of a
// message, which means that it wants content as a list of parts.
func (t *Template) IteratesContent() bool { return false }
