package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"sync"
)

const maxRequests = 1024 // open at once on one connection

// connection is one client: many requests side by side, each in goroutines of
// its own, over one stream. The receive loop never waits for any of them.
type connection struct {
	settings settings
	procs    *processes
	stream   net.Conn

	sending sync.Mutex

	mu       sync.Mutex
	requests map[uint32]*request
	gone     chan struct{} // closed when the client is no longer there
}

// request is one open exec, read, write or stat.
type request struct {
	id   uint32
	conn *connection
	out  *window
	in   *inbox
	kill chan killMessage

	commit   chan commitMessage
	consumed int // bytes taken from in, not yet granted again
}

func newConnection(stream net.Conn, s settings, procs *processes) *connection {
	return &connection{
		settings: s, procs: procs, stream: stream,
		requests: map[uint32]*request{}, gone: make(chan struct{}),
	}
}

// run serves the client until its stream ends. All that it left running is
// killed then: nobody could ever learn what became of it.
func (c *connection) run() {
	defer c.stream.Close()
	if err := c.send(kindHello, 0, encode(helloMessage{protocolVersion, version})); err != nil {
		return
	}
	err := c.receive()
	close(c.gone)
	c.mu.Lock()
	for _, r := range c.requests {
		r.out.close()
		r.in.abort()
	}
	c.mu.Unlock()
	if err != io.EOF && !errors.Is(err, net.ErrClosed) {
		log.Printf("connection ended: %v", err)
	}
}

func (c *connection) receive() error {
	reader := bufio.NewReaderSize(c.stream, 64<<10)
	for {
		f, err := readFrame(reader)
		if err != nil {
			return err
		}
		if err := c.handle(f); err != nil {
			return err
		}
	}
}

func (c *connection) handle(f frame) error {
	switch f.kind {
	case kindExec:
		c.open(f, (*request).exec)
	case kindRead:
		c.open(f, (*request).read)
	case kindWrite:
		c.open(f, (*request).write)
	case kindStat:
		c.open(f, (*request).stat)
	default:
		return c.forward(f)
	}
	return nil
}

// open starts a request; what it returns goes out as its error frame.
func (c *connection) open(f frame, serve func(*request, []byte) error) {
	r := &request{
		id: f.request, conn: c, out: newWindow(), in: newInbox(),
		kill: make(chan killMessage, 1), commit: make(chan commitMessage, 1),
	}
	c.mu.Lock()
	_, taken := c.requests[f.request]
	full := len(c.requests) >= maxRequests
	if !taken && !full {
		c.requests[f.request] = r
	}
	c.mu.Unlock()
	go func() {
		var err error
		switch {
		case taken:
			err = &failure{codeInvalid, "this request number is in use"}
		case full:
			err = &failure{codeBusy, "too many requests at once"}
		default:
			err = serve(r, f.payload)
			c.close(r)
		}
		if err != nil {
			fail := asFailure(err)
			_ = c.send(kindError, r.id, encode(errorMessage{fail.code, fail.message})) // the receive loop sees a lost client
		}
	}()
}

func (c *connection) close(r *request) {
	c.mu.Lock()
	delete(c.requests, r.id)
	c.mu.Unlock()
	r.out.close()
	r.in.abort()
}

// forward hands a frame to an open request. One for a request that has ended
// meanwhile is no fault: they cross on the wire.
func (c *connection) forward(f frame) error {
	c.mu.Lock()
	r := c.requests[f.request]
	c.mu.Unlock()
	if r == nil {
		return nil
	}
	switch f.kind {
	case kindInput:
		if !r.in.push(f.payload) {
			return &failure{codeInvalid, "client exceeded its window"}
		}
	case kindInputEnd:
		r.in.end()
	case kindAbort:
		r.in.abort()
		r.out.close()
	case kindWindow:
		if len(f.payload) != 4 {
			return &failure{codeInvalid, "malformed window frame"}
		}
		r.out.grant(binary.BigEndian.Uint32(f.payload))
	case kindKill:
		message, err := decode[killMessage](f.payload)
		if err != nil {
			return err
		}
		offer(r.kill, message)
	case kindCommit:
		message, err := decode[commitMessage](f.payload)
		if err != nil {
			return err
		}
		offer(r.commit, message)
		r.in.end()
	default:
		return &failure{codeInvalid, "unknown frame"}
	}
	return nil
}

// offer keeps the first message: a second kill or commit says nothing new.
func offer[T any](to chan T, message T) {
	select {
	case to <- message:
	default:
	}
}

// send writes one whole frame.
func (c *connection) send(k kind, id uint32, payload []byte) error {
	buffer := make([]byte, headerSize+len(payload))
	copy(buffer[headerSize:], payload)
	return c.sendInPlace(k, id, buffer)
}

// sendInPlace writes a frame whose payload stands behind headerSize free bytes.
func (c *connection) sendInPlace(k kind, id uint32, buffer []byte) error {
	putHeader(buffer, k, id, len(buffer)-headerSize)
	c.sending.Lock()
	defer c.sending.Unlock()
	_, err := c.stream.Write(buffer)
	return err
}

// grant tells the client that n more bytes of its input have been taken.
func (r *request) grant(n int) error {
	r.in.taken(n)
	r.consumed += n
	if r.consumed < grantStep {
		return nil
	}
	var payload [4]byte
	binary.BigEndian.PutUint32(payload[:], uint32(r.consumed))
	r.consumed = 0
	return r.conn.send(kindWindow, r.id, payload[:])
}
