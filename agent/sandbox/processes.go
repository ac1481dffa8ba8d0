package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// runVariable marks every process of one command. It survives setsid, double
// forks and exec; a process that drops it is still found as a descendant or in
// the session of one that has it.
const runVariable = "MIKAN_RUN_ID"

const (
	defaultGrace = time.Second
	killBound    = 5 * time.Second // for KILL to take effect; uninterruptible sleep can outlast it
)

// processes starts, reaps and kills. As the first process of a container, or
// as a subreaper elsewhere, every orphan becomes our child, so one loop waits
// for all and hands each exit status to whoever started that process.
type processes struct {
	instance string // first half of every run id of this helper

	mu      sync.Mutex
	waiting map[int]chan syscall.WaitStatus
}

func newProcesses() *processes {
	p := &processes{instance: randomHex(8), waiting: map[int]chan syscall.WaitStatus{}}
	go p.reap()
	return p
}

func randomHex(n int) string {
	raw := make([]byte, n)
	rand.Read(raw) // documented never to fail
	return hex.EncodeToString(raw)
}

func (p *processes) newRun() string { return p.instance + randomHex(8) }

func (p *processes) reap() {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for range children {
		p.mu.Lock()
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if err == syscall.EINTR {
				continue
			}
			if pid <= 0 {
				break
			}
			if waiter, ok := p.waiting[pid]; ok {
				delete(p.waiting, pid)
				waiter <- status
			}
		}
		p.mu.Unlock()
	}
}

// start runs a program in a session of its own and returns its pid and the
// channel that its exit status will arrive on.
func (p *processes) start(path string, argv []string, attr *syscall.ProcAttr) (int, <-chan syscall.WaitStatus, error) {
	attr.Sys = &syscall.SysProcAttr{Setsid: true}
	exit := make(chan syscall.WaitStatus, 1)
	p.mu.Lock() // so that a quick exit is not reaped before it is awaited
	defer p.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return 0, nil, err
	}
	p.waiting[pid] = exit
	// The out-of-memory killer must choose a command, never its helper. Best
	// effort: a command that is already gone has no such file.
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte("1000"), 0)
	return pid, exit, nil
}

// alive tells whether the process that start returned has not been reaped.
func (p *processes) alive(pid int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.waiting[pid]
	return ok
}

// killRun ends all processes of a run: TERM, then after grace KILL until none
// is left. It returns how many it could not end.
func (p *processes) killRun(run string, root int, grace time.Duration) int {
	find := func() []int {
		live := 0
		if p.alive(root) {
			live = root
		}
		return findRun(run, live)
	}
	told := map[int]bool{}
	wait := 2 * time.Millisecond
	for end := time.Now().Add(grace); time.Now().Before(end); wait = min(2*wait, 25*time.Millisecond) {
		found := find()
		if len(found) == 0 {
			return 0
		}
		for _, pid := range found {
			if !told[pid] {
				told[pid] = true
				_ = syscall.Kill(pid, syscall.SIGTERM) // gone meanwhile is what we want
			}
		}
		time.Sleep(min(wait, time.Until(end)))
	}
	found := find()
	for end := time.Now().Add(killBound); len(found) > 0 && time.Now().Before(end); found = find() {
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone meanwhile is what we want
		}
		time.Sleep(2 * time.Millisecond)
	}
	return len(found)
}

// killAll ends every process of every run of this helper, at once.
func (p *processes) killAll() {
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		found := findRun(p.instance, 0)
		if len(found) == 0 {
			return
		}
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone meanwhile is what we want
		}
	}
}

type process struct {
	pid, parent, session int
	ours                 bool
}

// findRun lists the living processes whose run id starts with run, the process
// root (0 = none), and all that descend from them or share their session.
func findRun(run string, root int) []int {
	table := processTable(run)
	found := map[int]bool{}
	sessions := map[int]bool{}
	for _, p := range table {
		if p.ours || p.pid == root {
			found[p.pid] = true
			sessions[p.session] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range table {
			if !found[p.pid] && (found[p.parent] || sessions[p.session]) {
				found[p.pid] = true
				sessions[p.session] = true
				grown = true
			}
		}
	}
	pids := make([]int, 0, len(found))
	for pid := range found {
		pids = append(pids, pid)
	}
	return pids
}

// processTable reads /proc, without zombies and without ourselves.
func processTable(run string) []process {
	directory, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer directory.Close()
	names, _ := directory.Readdirnames(-1) // a partial list is scanned again by the caller's loop
	mark := []byte(runVariable + "=" + run)
	self := os.Getpid()
	var table []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == self {
			continue
		}
		p, ok := readProcess(pid)
		if !ok {
			continue
		}
		environ, _ := os.ReadFile("/proc/" + name + "/environ") // unreadable: found by parent or session
		p.ours = bytes.HasPrefix(environ, mark) || bytes.Contains(environ, append([]byte{0}, mark...))
		table = append(table, p)
	}
	return table
}

func readProcess(pid int) (process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	// The second field is the program's name in parentheses and may hold anything.
	text := string(stat[bytes.LastIndexByte(stat, ')')+1:])
	fields := strings.Fields(text)
	if len(fields) < 4 || fields[0] == "Z" || fields[0] == "X" {
		return process{}, false
	}
	parent, _ := strconv.Atoi(fields[1])  // the kernel writes numbers here
	session, _ := strconv.Atoi(fields[3]) // and here
	return process{pid: pid, parent: parent, session: session}, true
}
