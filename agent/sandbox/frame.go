package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// The frame format; PROTOCOL.md is its description, framing.py its other end.
const (
	protocolVersion = 1
	headerSize      = 9
	maxPayload      = 1 << 20 // a frame that claims more is not ours
	windowSize      = 1 << 20 // bytes in flight per request and direction
	grantStep       = windowSize / 4
	chunkSize       = 128<<10 - headerSize // payload of the data frames we send: with its header it fills whole pages
)

type kind byte

// What the client sends.
const (
	kindExec     kind = 0x01
	kindInput    kind = 0x02
	kindInputEnd kind = 0x03
	kindKill     kind = 0x04
	kindRead     kind = 0x05
	kindWrite    kind = 0x06
	kindCommit   kind = 0x07
	kindAbort    kind = 0x08
	kindStat     kind = 0x09
)

// What either side sends.
const kindWindow kind = 0x40

// What the helper sends.
const (
	kindHello  kind = 0x80
	kindStdout kind = 0x81
	kindStderr kind = 0x82
	kindExit   kind = 0x83
	kindError  kind = 0x84
	kindData   kind = 0x85
	kindDone   kind = 0x86
)

type frame struct {
	kind    kind
	request uint32
	payload []byte
}

func putHeader(header []byte, k kind, request uint32, length int) {
	binary.BigEndian.PutUint32(header, uint32(length))
	header[4] = byte(k)
	binary.BigEndian.PutUint32(header[5:], request)
}

// readFrame returns io.EOF only between frames; inside one it is
// io.ErrUnexpectedEOF.
func readFrame(r io.Reader) (frame, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return frame{}, err
	}
	length := binary.BigEndian.Uint32(header[:])
	if length > maxPayload {
		return frame{}, fmt.Errorf("frame of %d bytes, more than %d", length, maxPayload)
	}
	f := frame{kind: kind(header[4]), request: binary.BigEndian.Uint32(header[5:])}
	if length == 0 {
		return f, nil
	}
	f.payload = make([]byte, length)
	if _, err := io.ReadFull(r, f.payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	return f, nil
}

// Control payloads. Byte strings (paths, arguments, variables) are base64 in
// JSON, which is how Go writes []byte: they need not be UTF-8.

type helloMessage struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
}

type execMessage struct {
	Argv      [][]byte `json:"argv"`
	Command   []byte   `json:"command"`
	Shell     []byte   `json:"shell"`
	Cwd       []byte   `json:"cwd"`
	Env       [][]byte `json:"env"` // NAME=value
	Stdin     bool     `json:"stdin"`
	TimeoutMs int64    `json:"timeout_ms"`
	GraceMs   int64    `json:"grace_ms"`
}

type killMessage struct {
	GraceMs int64 `json:"grace_ms"`
}

type exitMessage struct {
	Code        int   `json:"code"` // -1 when a signal ended it
	Signal      int   `json:"signal"`
	TimedOut    bool  `json:"timed_out"`
	Killed      bool  `json:"killed"`
	Survivors   int   `json:"survivors"`
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
}

type readMessage struct {
	Path   []byte `json:"path"`
	Offset int64  `json:"offset"`
	Limit  *int64 `json:"limit"`
}

type writeMessage struct {
	Path    []byte  `json:"path"`
	Mode    *uint32 `json:"mode"`
	Parents bool    `json:"parents"`
}

type commitMessage struct {
	Bytes int64 `json:"bytes"`
}

type statMessage struct {
	Path   []byte `json:"path"`
	Follow bool   `json:"follow"`
}

type doneMessage struct {
	Bytes   int64  `json:"bytes"`
	Type    string `json:"type,omitempty"`
	Size    int64  `json:"size"`
	Mode    uint32 `json:"mode"`
	MtimeNs int64  `json:"mtime_ns"`
}

type errorMessage struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // only our own plain structs come here
	}
	return data
}

func decode[T any](payload []byte) (T, error) {
	var v T
	if err := json.Unmarshal(payload, &v); err != nil {
		return v, &failure{codeInvalid, "malformed request: " + err.Error()}
	}
	return v, nil
}
