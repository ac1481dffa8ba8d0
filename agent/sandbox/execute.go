package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	drainIdle    = 200 * time.Millisecond // pipe silent for this long after the exit: it is held by a background child
	drainMost    = time.Second            // and one that never falls silent is cut off after this
	pipeCapacity = 256 << 10
	maxArgument  = 128 << 10 // MAX_ARG_STRLEN of Linux
)

// exec runs one command to its end. It returns when the command's own process
// has exited, even if a child that it left behind holds its pipes.
func (r *request) exec(payload []byte) error {
	message, err := decode[execMessage](payload)
	if err != nil {
		return err
	}
	c := r.conn
	run := c.procs.newRun()
	spec, err := c.settings.resolve(message, run)
	if err != nil {
		return err
	}
	pipes, err := openPipes(message.Stdin)
	if err != nil {
		return err
	}
	pid, exit, err := c.procs.start(spec.path, spec.argv, &syscall.ProcAttr{Dir: spec.cwd, Env: spec.env, Files: pipes.childEnds()})
	pipes.closeChildEnds()
	if err != nil {
		pipes.closeOurEnds()
		return err
	}
	stdout := startPump(r, kindStdout, pipes.stdout)
	stderr := startPump(r, kindStderr, pipes.stderr)
	if message.Stdin {
		go r.feed(pipes.stdin)
	}
	report := r.await(message, run, pid, exit, stdout, stderr)
	report.StdoutBytes, report.StderrBytes = stdout.sent, stderr.sent
	return c.send(kindExit, r.id, encode(report))
}

// await watches a running command: its exit, its time limit, a kill, the loss
// of the client. After the last three nothing of the run is left.
func (r *request) await(message execMessage, run string, pid int, exit <-chan syscall.WaitStatus, pumps ...*pump) exitMessage {
	report := exitMessage{}
	grace := milliseconds(message.GraceMs, defaultGrace)
	var timeout <-chan time.Time
	if message.TimeoutMs > 0 {
		timer := time.NewTimer(time.Duration(message.TimeoutMs) * time.Millisecond)
		defer timer.Stop()
		timeout = timer.C
	}
	drained := make(chan struct{})
	startDrain := func() {
		go func() {
			for _, p := range pumps {
				p.drain()
			}
			for _, p := range pumps {
				<-p.done
			}
			close(drained)
		}()
	}
	end := func() {
		report.Survivors = r.conn.procs.killRun(run, pid, grace)
	}
	exited, over := false, false
	for !over || !exited {
		var lost <-chan struct{}
		if !report.Killed && !report.TimedOut {
			lost = r.conn.gone
		}
		select {
		case status := <-exit:
			exited = true
			describe(&report, status)
			startDrain()
		case <-drained:
			over = true
		case <-timeout:
			timeout = nil
			if !exited {
				report.TimedOut = true
				end()
			}
		case kill := <-r.kill:
			report.Killed = true
			grace = milliseconds(kill.GraceMs, grace)
			end()
		case <-lost:
			report.Killed = true
			end()
		}
		if report.Survivors > 0 && !exited {
			exited, exit = true, nil // it sleeps uninterruptibly; there is nothing to wait for
			report.Code, report.Signal = -1, int(syscall.SIGKILL)
			startDrain()
		}
	}
	return report
}

func describe(report *exitMessage, status syscall.WaitStatus) {
	if status.Signaled() {
		report.Code, report.Signal = -1, int(status.Signal())
		return
	}
	report.Code = status.ExitStatus()
}

func milliseconds(n int64, otherwise time.Duration) time.Duration {
	if n <= 0 {
		return otherwise
	}
	return time.Duration(n) * time.Millisecond
}

// feed copies the client's input into the command. A command that closes its
// stdin early is not an error.
func (r *request) feed(stdin *os.File) {
	defer stdin.Close()
	for {
		chunk, err := r.in.next()
		if err != nil || chunk == nil {
			return
		}
		if _, err := stdin.Write(chunk); err != nil {
			r.discardInput()
			return
		}
		if r.grant(len(chunk)) != nil {
			return
		}
	}
}

// discardInput keeps taking input, so that the client is not held up.
func (r *request) discardInput() {
	for {
		chunk, err := r.in.next()
		if err != nil || chunk == nil || r.grant(len(chunk)) != nil {
			return
		}
	}
}

// pump sends one output stream of a command to the client.
type pump struct {
	request *request
	kind    kind
	pipe    *os.File
	done    chan struct{}
	sent    int64 // valid once done is closed
	exited  atomic.Int64
	owed    atomic.Int64 // bytes that stood in the pipe when the command exited
}

func startPump(r *request, k kind, pipe *os.File) *pump {
	p := &pump{request: r, kind: k, pipe: pipe, done: make(chan struct{})}
	go p.run()
	return p
}

// drain tells the pump that the command itself has exited.
func (p *pump) drain() {
	p.owed.Store(int64(available(p.pipe)))
	p.exited.Store(time.Now().UnixNano())
	_ = p.pipe.SetReadDeadline(time.Now().Add(drainIdle)) // fails only on a pipe that run has closed
}

func (p *pump) run() {
	if p.copy() {
		go trickle(p.pipe)
	} else {
		p.pipe.Close()
	}
	close(p.done)
}

// copy reports whether somebody still holds the other end of the pipe.
func (p *pump) copy() bool {
	buffer := make([]byte, headerSize+chunkSize)
	var blocked time.Duration // waiting for the client is not the command's time
	var afterExit int64
	for {
		n, err := p.pipe.Read(buffer[headerSize:])
		if n > 0 {
			before := time.Now()
			if p.request.out.take(n) != nil {
				return true
			}
			if p.request.conn.sendInPlace(p.kind, p.request.id, buffer[:headerSize+n]) != nil {
				return true
			}
			p.sent += int64(n)
			exited := p.exited.Load()
			if exited == 0 {
				continue
			}
			blocked += time.Since(before)
			afterExit += int64(n)
			if afterExit >= p.owed.Load() && time.Since(time.Unix(0, exited)) > drainMost+blocked {
				return true
			}
			_ = p.pipe.SetReadDeadline(time.Now().Add(drainIdle)) // the pipe is open
			continue
		}
		if !os.IsTimeout(err) {
			return false
		}
		if available(p.pipe) == 0 {
			return true
		}
		_ = p.pipe.SetReadDeadline(time.Now().Add(drainIdle)) // data came just as the time was up
	}
}

// trickle reads on from a pipe that a background child holds, slowly and for
// nobody: closing it would kill a server that logs there, with SIGPIPE.
func trickle(pipe *os.File) {
	defer pipe.Close()
	_ = pipe.SetReadDeadline(time.Time{}) // the pipe is open
	buffer := make([]byte, 16<<10)
	for {
		if _, err := pipe.Read(buffer); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// available is the number of bytes that can be read at once.
func available(pipe *os.File) int {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return 0
	}
	var n int32
	_ = raw.Control(func(fd uintptr) { // fails only on a closed file, and then n is 0
		syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCINQ, uintptr(unsafe.Pointer(&n)))
	})
	return int(n)
}

// pipes are the three standard streams of one command.
type pipes struct {
	stdin          *os.File // ours, or nil
	stdout, stderr *os.File // ours
	child          []int
}

// openPipes makes them; without input the command reads /dev/null.
func openPipes(input bool) (p *pipes, err error) {
	p = &pipes{}
	defer func() {
		if err != nil {
			p.closeChildEnds()
			p.closeOurEnds()
		}
	}()
	if input {
		if p.stdin, err = p.add("stdin", 1); err != nil {
			return p, err
		}
	} else {
		null, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return p, err
		}
		p.child = append(p.child, null)
	}
	if p.stdout, err = p.add("stdout", 0); err != nil {
		return p, err
	}
	p.stderr, err = p.add("stderr", 0)
	return p, err
}

// add opens one pipe and keeps end number ours (0 reads, 1 writes). Only our
// end is non-blocking: programs do not expect that of theirs.
func (p *pipes) add(name string, ours int) (*os.File, error) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return nil, err
	}
	p.child = append(p.child, ends[1-ours])
	// Larger pipes mean fewer switches; where they are refused, the default does.
	syscall.Syscall(syscall.SYS_FCNTL, uintptr(ends[0]), syscall.F_SETPIPE_SZ, pipeCapacity)
	if err := syscall.SetNonblock(ends[ours], true); err != nil {
		syscall.Close(ends[ours])
		return nil, err
	}
	return os.NewFile(uintptr(ends[ours]), name), nil
}

func (p *pipes) childEnds() []uintptr {
	files := make([]uintptr, 0, 3)
	for _, fd := range p.child {
		files = append(files, uintptr(fd))
	}
	return files
}

func (p *pipes) closeChildEnds() {
	for _, fd := range p.child {
		syscall.Close(fd)
	}
}

func (p *pipes) closeOurEnds() {
	for _, file := range []*os.File{p.stdin, p.stdout, p.stderr} {
		if file != nil {
			file.Close()
		}
	}
}

// invocation is what a request comes to, ready to be started.
type invocation struct {
	path string
	argv []string
	cwd  string
	env  []string
}

func (s settings) resolve(message execMessage, run string) (invocation, error) {
	spec := invocation{cwd: s.absolute(string(message.Cwd)), env: s.environment(message.Env, run)}
	if info, err := os.Stat(spec.cwd); err != nil {
		return spec, &failure{asFailure(err).code, "working directory: " + asFailure(err).message}
	} else if !info.IsDir() {
		return spec, &failure{codeInvalid, "working directory: not a directory"}
	}
	if len(message.Argv) == 0 {
		if len(message.Command) >= maxArgument {
			return spec, &failure{codeTooLarge, "the command is longer than Linux passes to a program (128 KiB); write it to a file and run that"}
		}
		shell := findShell(string(message.Shell))
		spec.path = shell
		spec.argv = []string{filepath.Base(shell), "-c", string(message.Command)}
		return spec, nil
	}
	for _, argument := range message.Argv {
		spec.argv = append(spec.argv, string(argument))
	}
	path, err := lookUp(spec.argv[0], spec.cwd, spec.env)
	spec.path = path
	return spec, err
}

func findShell(wanted string) string {
	if wanted != "" {
		return wanted
	}
	for _, shell := range []string{"/bin/bash", "/usr/bin/bash"} {
		if info, err := os.Stat(shell); err == nil && info.Mode()&0o111 != 0 {
			return shell
		}
	}
	return "/bin/sh"
}

// lookUp finds a program in the PATH that the command itself will see.
func lookUp(name, cwd string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil // the kernel resolves it, in cwd
	}
	search := ""
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			search = value
		}
	}
	for _, directory := range filepath.SplitList(search) {
		path := filepath.Join(directory, name)
		if !filepath.IsAbs(path) {
			path = filepath.Join(cwd, path)
		}
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", &failure{codeNotFound, "no such program in PATH"}
}

// environment is the helper's own, then the vault's variables as they are now,
// then the request's, then the run id.
func (s settings) environment(extra [][]byte, run string) []string {
	merged := map[string]string{}
	for _, entry := range os.Environ() {
		if name, value, ok := strings.Cut(entry, "="); ok && !strings.HasPrefix(name, "MIKAN_VAULT_") {
			merged[name] = value
		}
	}
	merged["HOME"] = s.home
	if _, ok := merged["PATH"]; !ok {
		merged["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	for name, value := range s.vault.load() {
		merged[name] = value
	}
	for _, entry := range extra {
		if name, value, ok := strings.Cut(string(entry), "="); ok && name != "" {
			merged[name] = value
		}
	}
	merged[runVariable] = run
	env := make([]string, 0, len(merged))
	for name, value := range merged {
		env = append(env, name+"="+value)
	}
	return env
}

// absolute resolves a path of a request against the workspace.
func (s settings) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(s.workspace, path)
}
