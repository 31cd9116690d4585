package expediter

import "net/http"

// headFits reports whether the head of a request is within the limits: the
// engine refuses large ones too, and nobody else needs to read them. What one
// connection may send before there is a request is the http.Server's to bound.
func headFits(r *http.Request, l *Limits) bool {
	fields, size := 0, len(r.Method)+len(r.RequestURI)+len(r.Host)
	for name, values := range r.Header {
		fields += len(values)
		for _, v := range values {
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	return fields <= l.Fields && size <= l.Head
}
