package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"testing"
)

// nowhere is a connection that takes every write.
type nowhere struct{ net.Conn }

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// Whatever a client sends is refused with an error of vLLM's shape, or leads
// to sequences the engine can take.
func FuzzRequestBody(f *testing.F) {
	for _, s := range []string{
		`{"messages":[{"role":"user","content":"hi"}],"max_tokens":5,"stream":true,"stream_options":{"include_usage":true}}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"n":2,"stop":["a"],"tools":[{}]}`,
		`{"prompt":["a","b"],"max_tokens":null,"echo":true}`, `{"prompt":[[1,2],[3]],"seed":-1}`, `{"prompt":[1,2,3],"ignore_eos":true,"min_tokens":2}`,
		`{"prompt":[]}`, `{"prompt":[[]]}`, `{"prompt":{}}`, `{"messages":{}}`, `{"n":1e3,"prompt":"x"}`, `[]`, `null`,
	} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	s := NewServer(Config{Model: "m", KVTokens: 1600, MaxModelLen: 800})
	f.Fuzz(func(t *testing.T, data []byte, chat bool) {
		b, bad := parse(data, chat)
		if bad != nil {
			checkShape(t, bad)
			return
		}
		if b.count() > 4 {
			return
		}
		prompts, bad := s.prompts(b)
		if bad == nil {
			bad = s.checkLength(b, prompts)
		}
		if bad != nil {
			checkShape(t, bad)
			return
		}
		c := &call{req: b, wake: make(chan struct{}, 1), entry: &entry{}}
		s.prepare(c, prompts)
		for i := range c.choices {
			seq := &c.choices[i].seq
			if seq.Prompt < 1 || seq.Output < 1 || seq.Prompt+seq.Output > 800 {
				t.Fatalf("%q plans a prompt of %d and an output of %d", data, seq.Prompt, seq.Output)
			}
			if err := s.eng.Submit(seq); err != nil {
				t.Fatalf("%q: %v", data, err)
			}
			s.eng.Abort(seq)
		}
	})
}

func checkShape(t *testing.T, bad *apiError) {
	t.Helper()
	var shape struct {
		Error struct {
			Message, Type *string
			Code          *int
		}
	}
	if err := json.Unmarshal(bad.append(nil), &shape); err != nil || shape.Error.Message == nil || shape.Error.Type == nil || *shape.Error.Code != bad.status {
		t.Errorf("error %s: %v", bad.append(nil), err)
	}
}

// Whatever a peer sends, it is read in bounded memory and without a panic.
func FuzzZMTP(f *testing.F) {
	f.Add([]byte("\x00\x01\x01\x04\x0a\x09SUBSCRIBEkv\x01\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x02"))
	f.Add([]byte("\x04\x07\x04PING\x00\x01\x02\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Add([]byte("\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = property(data, "Socket-Type")
		p := &peer{conn: nowhere{}, r: bufio.NewReader(bytes.NewReader(data))}
		for {
			msg, err := p.receive()
			if err != nil {
				return
			}
			size := 0
			for _, frame := range msg {
				size += len(frame)
			}
			if len(msg) == 0 || size > 16*maxFrame {
				t.Fatalf("a message of %d frames and %d bytes", len(msg), size)
			}
		}
	})
}
