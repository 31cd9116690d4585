package expediter

import (
	"io"
	"net/http"
	"time"
)

// lingerTime is for how long a client may still send what nobody needs.
const lingerTime = 500 * time.Millisecond

// linger reads what the client is still sending after an answer that did not need
// it, if the connection ends with it. Were it closed at once, the system would reset
// it, and the client might lose the answer. net/http waits by itself where it is not
// the client that has asked for the connection's end.
func linger(w http.ResponseWriter, r *http.Request) {
	if !r.Close || r.ProtoMajor != 1 || w.Header().Get("Connection") == "" {
		return // Connection is set until the body is read
	}
	c := http.NewResponseController(w)
	if c.Flush() == nil && c.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.Copy(io.Discard, r.Body) // ends with the time, or when the client has had its say
	}
}
