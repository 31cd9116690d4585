package sim

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// This is as much of ZeroMQ's wire protocol, ZMTP 3.0 with the NULL mechanism
// (rfc.zeromq.org/spec/23), as a PUB and a ROUTER socket need that others
// connect to.

const (
	frameMore    = 1
	frameLong    = 2
	frameCommand = 4

	maxFrame = 1 << 16 // peers send subscriptions and replay requests, which are short
)

// peer is one connection after the handshake.
type peer struct {
	conn net.Conn
	r    *bufio.Reader
	kind string // socket type of the other side

	mu sync.Mutex // held while a message or a command is sent
}

// handshake greets a peer that connected and exchanges READY commands.
func handshake(conn net.Conn, socket string) (*peer, error) {
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	greeting := make([]byte, 64)
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
	copy(greeting[12:], "NULL")
	if _, err := conn.Write(greeting); err != nil {
		return nil, err
	}
	p := &peer{conn: conn, r: bufio.NewReader(conn)}
	var theirs [64]byte
	if _, err := io.ReadFull(p.r, theirs[:]); err != nil {
		return nil, err
	}
	if theirs[0] != 0xff || theirs[9] != 0x7f || theirs[10] < 3 || string(theirs[12:17]) != "NULL\x00" {
		return nil, errors.New("sim: peer does not speak ZMTP 3 with the NULL mechanism")
	}
	ready := append([]byte("\x05READY\x0bSocket-Type"), 0, 0, 0, byte(len(socket)))
	if err := p.write(frameCommand, append(ready, socket...)); err != nil {
		return nil, err
	}
	flags, body, err := p.read()
	if err != nil {
		return nil, err
	}
	if flags&frameCommand == 0 || len(body) < 6 || string(body[:6]) != "\x05READY" {
		return nil, errors.New("sim: peer sent no READY command")
	}
	if p.kind, err = property(body[6:], "Socket-Type"); err != nil {
		return nil, err
	}
	return p, conn.SetDeadline(time.Time{})
}

// property finds one property of a READY command.
func property(b []byte, name string) (string, error) {
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n+4 {
			break
		}
		key := string(b[1 : 1+n])
		b = b[1+n:]
		v := binary.BigEndian.Uint32(b)
		b = b[4:]
		if uint64(v) > uint64(len(b)) {
			break
		}
		if key == name {
			return string(b[:v]), nil
		}
		b = b[v:]
	}
	return "", fmt.Errorf("sim: READY command has no %s", name)
}

// write sends one frame.
func (p *peer) write(flags byte, body []byte) error {
	var head [9]byte
	n := 2
	if len(body) < 256 {
		head[0], head[1] = flags, byte(len(body))
	} else {
		head[0] = flags | frameLong
		binary.BigEndian.PutUint64(head[1:], uint64(len(body)))
		n = 9
	}
	if _, err := p.conn.Write(append(head[:n:n], body...)); err != nil {
		return err
	}
	return nil
}

// send sends a message of several frames.
func (p *peer) send(frames ...[]byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, f := range frames {
		flags := byte(frameMore)
		if i == len(frames)-1 {
			flags = 0
		}
		if err := p.write(flags, f); err != nil {
			return err
		}
	}
	return nil
}

// read receives one frame.
func (p *peer) read() (flags byte, body []byte, err error) {
	var head [8]byte
	if flags, err = p.r.ReadByte(); err != nil {
		return 0, nil, err
	}
	size := uint64(0)
	if flags&frameLong != 0 {
		if _, err := io.ReadFull(p.r, head[:]); err != nil {
			return 0, nil, err
		}
		size = binary.BigEndian.Uint64(head[:])
	} else {
		b, err := p.r.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		size = uint64(b)
	}
	if size > maxFrame {
		return 0, nil, fmt.Errorf("sim: peer sent a frame of %d bytes, want at most %d", size, maxFrame)
	}
	body = make([]byte, size)
	_, err = io.ReadFull(p.r, body)
	return flags, body, err
}

// receive returns the next message, and answers pings on the way.
func (p *peer) receive() ([][]byte, error) {
	var msg [][]byte
	for {
		flags, body, err := p.read()
		switch {
		case err != nil:
			return nil, err
		case flags&frameCommand != 0:
			if err := p.command(body); err != nil {
				return nil, err
			}
			if sub, ok := subscription(body); ok {
				return [][]byte{sub}, nil
			}
			continue
		case len(msg) == 16:
			return nil, errors.New("sim: peer sent a message of more than 16 frames")
		}
		msg = append(msg, body)
		if flags&frameMore == 0 {
			return msg, nil
		}
	}
}

// command answers a PING, whose body is a time to live and a context.
func (p *peer) command(body []byte) error {
	if len(body) >= 7 && string(body[:5]) == "\x04PING" {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.write(frameCommand, append([]byte("\x04PONG"), body[7:]...))
	}
	return nil
}

// subscription turns the commands of ZMTP 3.1 into the messages of 3.0.
func subscription(body []byte) ([]byte, bool) {
	for name, first := range map[string]byte{"\x09SUBSCRIBE": 1, "\x06CANCEL": 0} {
		if len(body) >= len(name) && string(body[:len(name)]) == name {
			return append([]byte{first}, body[len(name):]...), true
		}
	}
	return nil, false
}
