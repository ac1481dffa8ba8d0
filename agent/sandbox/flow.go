package main

import "sync"

var errGone = &failure{codeInvalid, "the request was aborted"}

// window is the credit of one request towards the client: nobody sends more
// than the client has said it will take, so a slow reader stops the command
// that writes and nothing else.
type window struct {
	mu     sync.Mutex
	change *sync.Cond
	credit int64
	closed bool
}

func newWindow() *window {
	w := &window{credit: windowSize}
	w.change = sync.NewCond(&w.mu)
	return w
}

// take waits for n bytes of credit. n is at most chunkSize.
func (w *window) take(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.credit < int64(n) && !w.closed {
		w.change.Wait()
	}
	if w.closed {
		return errGone
	}
	w.credit -= int64(n)
	return nil
}

func (w *window) grant(n uint32) {
	w.mu.Lock()
	w.credit += int64(n)
	w.mu.Unlock()
	w.change.Broadcast()
}

func (w *window) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.change.Broadcast()
}

// inbox holds what the client sent for one request and nobody has taken yet:
// at most windowSize bytes, or the client broke the protocol.
type inbox struct {
	mu      sync.Mutex
	change  *sync.Cond
	chunks  [][]byte
	pending int
	ended   bool // no more will come
	aborted bool // what is left is void
}

func newInbox() *inbox {
	b := &inbox{}
	b.change = sync.NewCond(&b.mu)
	return b
}

// push reports whether the client kept to its window.
func (b *inbox) push(chunk []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.aborted {
		return true
	}
	b.pending += len(chunk)
	if b.pending > windowSize {
		return false
	}
	b.chunks = append(b.chunks, chunk)
	b.change.Broadcast()
	return true
}

// next returns the oldest chunk; nil without an error means the end.
func (b *inbox) next() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.chunks) == 0 && !b.ended && !b.aborted {
		b.change.Wait()
	}
	if b.aborted {
		return nil, errGone
	}
	if len(b.chunks) == 0 {
		return nil, nil
	}
	chunk := b.chunks[0]
	b.chunks = b.chunks[1:]
	return chunk, nil
}

// taken frees room in the window.
func (b *inbox) taken(n int) {
	b.mu.Lock()
	b.pending -= n
	b.mu.Unlock()
}

func (b *inbox) end() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.change.Broadcast()
}

func (b *inbox) abort() {
	b.mu.Lock()
	b.aborted = true
	b.chunks = nil
	b.mu.Unlock()
	b.change.Broadcast()
}
