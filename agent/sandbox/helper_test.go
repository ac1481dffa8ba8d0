package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if err := prctl(prSetChildSubreaper, 1); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

var sharedProcesses = newProcesses() // one reaper: two would take each other's exit statuses

// client is the other end of a connection under test.
type client struct {
	t      *testing.T
	stream net.Conn
	number uint32
}

func newClient(t *testing.T) *client {
	t.Helper()
	near, far := net.Pipe()
	vault, err := newVault(t.TempDir(), t.TempDir(), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	go newConnection(far, settings{vault: vault, home: t.TempDir(), workspace: t.TempDir()}, sharedProcesses).run()
	t.Cleanup(func() { near.Close() })
	c := &client{t: t, stream: near}
	if hello := c.next(); hello.kind != kindHello {
		t.Fatalf("first frame is %#x, not hello", hello.kind)
	}
	return c
}

func (c *client) send(k kind, message any) {
	c.t.Helper()
	payload, ok := message.([]byte)
	if !ok {
		payload = encode(message)
	}
	buffer := make([]byte, headerSize, headerSize+len(payload))
	putHeader(buffer, k, c.number, len(payload))
	if _, err := c.stream.Write(append(buffer, payload...)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) open(k kind, message any) {
	c.t.Helper()
	c.number++
	c.send(k, message)
}

func (c *client) next() frame {
	c.t.Helper()
	c.stream.SetReadDeadline(time.Now().Add(10 * time.Second))
	f, err := readFrame(c.stream)
	if err != nil {
		c.t.Fatal(err)
	}
	return f
}

// finish collects the data frames of a request and its last one.
func (c *client) finish() (string, frame) {
	c.t.Helper()
	var data bytes.Buffer
	for {
		f := c.next()
		switch f.kind {
		case kindExit, kindDone, kindError:
			return data.String(), f
		case kindWindow:
		default:
			data.Write(f.payload)
		}
	}
}

func (c *client) shell(command string) (string, exitMessage) {
	c.t.Helper()
	c.open(kindExec, execMessage{Command: []byte(command)})
	output, last := c.finish()
	return output, parse[exitMessage](c.t, last)
}

func parse[T any](t *testing.T, f frame) T {
	t.Helper()
	var message T
	if err := json.Unmarshal(f.payload, &message); err != nil {
		t.Fatalf("%#x: %v", f.kind, err)
	}
	return message
}

func TestExitCarriesCodeAndCounts(t *testing.T) {
	output, exit := newClient(t).shell("printf abc; exit 4")
	want := exitMessage{Code: 4, StdoutBytes: 3}
	if output != "abc" || exit != want {
		t.Errorf("got %q, %+v", output, exit)
	}
}

func TestSignalIsReported(t *testing.T) {
	_, exit := newClient(t).shell("kill -KILL $$")
	if want := (exitMessage{Code: -1, Signal: int(syscall.SIGKILL)}); exit != want {
		t.Errorf("got %+v", exit)
	}
}

func TestTimeLimitEndsProcessesThatLeftSessionAndEnvironment(t *testing.T) {
	c := newClient(t)
	mark := "7" + strconv.Itoa(os.Getpid())
	command := "env -i setsid sleep " + mark + " & setsid setsid sleep " + mark + " & (trap '' TERM; sleep " + mark + "; true) & wait"
	c.open(kindExec, execMessage{Command: []byte(command), TimeoutMs: 300, GraceMs: 100})
	_, last := c.finish()
	if exit := parse[exitMessage](t, last); !exit.TimedOut || exit.Survivors != 0 {
		t.Errorf("got %+v", exit)
	}
	entries, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, entry := range entries {
		line, _ := os.ReadFile(entry)
		if string(line) == "sleep\x00"+mark+"\x00" {
			t.Errorf("%s still runs", entry)
		}
	}
}

func TestCommandIsFirstForTheOutOfMemoryKiller(t *testing.T) {
	output, _ := newClient(t).shell("sleep 0.1; cat /proc/self/oom_score_adj")
	if output != "1000\n" {
		t.Errorf("got %q", output)
	}
}

func TestOutputStopsAtTheWindowAndGoesOnWithAGrant(t *testing.T) {
	c := newClient(t)
	c.open(kindExec, execMessage{Command: []byte("head -c 3000000 /dev/zero")})
	received := 0
	for received < windowSize-chunkSize {
		received += len(c.next().payload)
	}
	c.stream.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	for {
		f, err := readFrame(c.stream)
		if err != nil {
			break
		}
		received += len(f.payload)
	}
	if received > windowSize {
		t.Fatalf("%d bytes came, more than the window", received)
	}
	c.send(kindWindow, []byte{0x01, 0, 0, 0})
	data, last := c.finish()
	if exit := parse[exitMessage](t, last); received+len(data) != 3000000 || exit.StdoutBytes != 3000000 {
		t.Errorf("%d bytes, %+v", received+len(data), exit)
	}
}

func TestClientThatExceedsItsWindowIsCutOff(t *testing.T) {
	c := newClient(t)
	c.open(kindExec, execMessage{Command: []byte("exec sleep 600"), Stdin: true})
	go io.Copy(io.Discard, c.stream)
	buffer := make([]byte, headerSize+chunkSize)
	putHeader(buffer, kindInput, c.number, chunkSize)
	for range 3 * windowSize / chunkSize {
		if _, err := c.stream.Write(buffer); err != nil {
			return
		}
	}
	t.Error("it was not")
}

func TestWriteNeedsACommitThatCounts(t *testing.T) {
	for name, end := range map[string]func(*client){
		"abort":         func(c *client) { c.send(kindAbort, []byte{}) },
		"end of input":  func(c *client) { c.send(kindInputEnd, []byte{}) },
		"wrong count":   func(c *client) { c.send(kindCommit, commitMessage{Bytes: 2}) },
		"lost the rest": func(c *client) { c.send(kindCommit, commitMessage{Bytes: 4}) },
	} {
		t.Run(name, func(t *testing.T) {
			c, directory := newClient(t), t.TempDir()
			target := filepath.Join(directory, "f")
			os.WriteFile(target, []byte("before"), 0o644)
			c.open(kindWrite, writeMessage{Path: []byte(target)})
			c.send(kindInput, []byte("new"))
			end(c)
			if _, last := c.finish(); last.kind != kindError {
				t.Errorf("last frame is %#x", last.kind)
			}
			content, _ := os.ReadFile(target)
			entries, _ := os.ReadDir(directory)
			if string(content) != "before" || len(entries) != 1 {
				t.Errorf("%q and %d entries", content, len(entries))
			}
		})
	}
}

func TestRequestNumberInUseIsRefused(t *testing.T) {
	c := newClient(t)
	c.open(kindExec, execMessage{Command: []byte("cat"), Stdin: true})
	c.send(kindStat, statMessage{Path: []byte("/")})
	if f := c.next(); f.kind != kindError {
		t.Errorf("got %#x", f.kind)
	}
}

func TestMalformedRequestIsAnError(t *testing.T) {
	c := newClient(t)
	for _, k := range []kind{kindExec, kindRead, kindWrite, kindStat} {
		c.open(k, []byte("{"))
		if _, last := c.finish(); parse[errorMessage](t, last).Code != codeInvalid {
			t.Errorf("%#x: %s", k, last.payload)
		}
	}
}

func TestReadFrame(t *testing.T) {
	whole := []byte{0, 0, 0, 2, byte(kindExec), 0, 0, 0, 9, 'a', 'b'}
	f, err := readFrame(bytes.NewReader(whole))
	if err != nil || f.kind != kindExec || f.request != 9 || string(f.payload) != "ab" {
		t.Errorf("got %+v, %v", f, err)
	}
	for cut := 1; cut < len(whole); cut++ {
		if _, err := readFrame(bytes.NewReader(whole[:cut])); err != io.ErrUnexpectedEOF {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	if _, err := readFrame(bytes.NewReader(nil)); err != io.EOF {
		t.Errorf("empty: %v", err)
	}
	if _, err := readFrame(bytes.NewReader([]byte{1, 0, 0, 0, 1, 0, 0, 0, 0})); err == nil {
		t.Error("a frame over the limit was taken")
	}
}

func TestHomePath(t *testing.T) {
	good := map[string]string{"~/.ssh/id": ".ssh/id", "a/../b": "b", "/home/u/c": "c", "x": "x"}
	for path, want := range good {
		if got, err := homePath("/home/u", path); got != want || err != nil {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	for _, path := range []string{"", ".", "~/", "..", "../x", "a/../../x", "/etc/passwd", "/home/user2", "/home/u"} {
		if got, err := homePath("/home/u", path); err == nil {
			t.Errorf("%s: taken as %q", path, got)
		}
	}
}

func TestWithEntry(t *testing.T) {
	const entry = "mikan:x:7:7::/home/mikan:/bin/sh"
	for text, want := range map[string]string{
		"":                            entry + "\n",
		"root:x:0:0::/:/bin/sh":       "root:x:0:0::/:/bin/sh\n" + entry + "\n",
		"root:x:0:0::/:/bin/sh\n":     "root:x:0:0::/:/bin/sh\n" + entry + "\n",
		"app:x:7:7::/app:/bin/bash\n": "app:x:7:7::/app:/bin/bash\n",
	} {
		if got := withEntry(text, 7, entry); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestInstallReplacesAsAWhole(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "bin")
	for range 2 {
		if err := install(directory); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(directory, "mikan-sandbox"))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Fatalf("%v, %v", info, err)
	}
	if entries, _ := os.ReadDir(directory); len(entries) != 1 {
		t.Errorf("%d entries", len(entries))
	}
}

func TestConnectPassesTheEndOfInputByHalf(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		stream, err := listener.Accept()
		if err != nil {
			return
		}
		defer stream.Close()
		input, _ := io.ReadAll(stream) // returns at the half close
		stream.Write(append(input, " and more"...))
	}()
	var output bytes.Buffer
	if err := connect(socket, strings.NewReader("input"), &output); err != nil || output.String() != "input and more" {
		t.Errorf("%q, %v", output.String(), err)
	}
}

func TestErrorsHaveCodes(t *testing.T) {
	_, missing := os.Open("/no/such")
	_, tooLong := os.Open("/" + strings.Repeat("n", 256))
	for want, err := range map[string]error{
		codeNotFound: missing,
		codeInvalid:  tooLong,
		codeNoSpace:  &os.PathError{Op: "write", Err: syscall.ENOSPC},
		codeIO:       errors.New("anything"),
		codeBusy:     &failure{codeBusy, "x"},
	} {
		if got := asFailure(err).code; got != want {
			t.Errorf("%v: %s, not %s", err, got, want)
		}
	}
}

func TestEnvironmentHidesTheVaultListsAndMarksTheRun(t *testing.T) {
	t.Setenv(vaultEnvVariable, "A")
	vault, err := newVault(t.TempDir(), "/home/u", os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	env := settings{vault: vault, home: "/home/u"}.environment([][]byte{[]byte("MIKAN_RUN_ID=forged"), []byte("=x")}, "r1")
	for entry, want := range map[string]bool{"MIKAN_RUN_ID=r1": true, "HOME=/home/u": true, "MIKAN_RUN_ID=forged": false, "=x": false, vaultEnvVariable + "=A": false} {
		if slices.Contains(env, entry) != want {
			t.Errorf("%s: %v", entry, !want)
		}
	}
}
