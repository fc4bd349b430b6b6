package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// pictures has each picture by the name of its file.
var pictures = map[string]func() *canvas{
	"loop.svg":     loop,
	"key.svg":      life,
	"failover.svg": failover,
	"fence.svg":    fence,
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pictures DIRECTORY")
		os.Exit(2)
	}
	for name, draw := range pictures {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), []byte(draw().String()), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "pictures:", err)
			os.Exit(1)
		}
	}
}

// loop shows how a change becomes a reconcile, and a write another change.
func loop() *canvas {
	c := newCanvas(900, 330, "The loop: a source is mirrored into a cache, changes become keys in a queue, and a worker reconciles each key.")
	c.box(20, 40, 150, 80, "", "source", "your table, file,", "API, or store")
	c.arrow("", 170, 80, 240, 80)
	c.text(205, 70, "small", "list, watch")
	c.box(240, 40, 140, 80, "", "informer", "finds missed", "deletions")
	c.arrow("", 380, 80, 450, 80)
	c.box(450, 40, 140, 80, "", "cache", "objects by key", "and by index")
	c.arrow("", 310, 120, 310, 210)
	c.text(366, 160, "small", "handlers:", "object to keys")
	c.box(240, 210, 140, 80, "", "queue", "each key once,", "now or later")
	c.arrow("", 380, 250, 640, 250)
	c.text(510, 240, "small", "one worker per key")
	c.box(640, 190, 220, 100, "user", "Reconcile(key)", "compare what is wanted", "with what exists, and act")
	c.arrow("", 590, 80, 750, 80, 750, 190)
	c.text(680, 70, "small", "reads")
	c.arrow("retry", 700, 290, 700, 315, 310, 315, 310, 290)
	c.text(510, 308, "small", "an error: again after a backoff")
	c.arrow("", 820, 190, 820, 20, 95, 20, 95, 40)
	c.text(600, 14, "small", "writes, with the version that they replace and the leader's term")
	return c
}

// life shows the states of a key in the queue.
func life() *canvas {
	c := newCanvas(900, 300, "The life of a key: absent, ready, in process, dirty, parked.")
	c.box(20, 110, 130, 70, "", "absent")
	c.box(240, 110, 130, 70, "", "ready", "in line, once")
	c.box(460, 110, 130, 70, "user", "process", "one worker has it")
	c.box(720, 30, 150, 70, "", "dirty", "added meanwhile")
	c.box(720, 200, 150, 70, "", "parked", "no attempts left")
	c.arrow("", 150, 135, 240, 135)
	c.text(195, 126, "small", "Add")
	c.arrow("retry", 150, 160, 240, 160)
	c.text(195, 178, "small", "when due")
	c.arrow("", 370, 145, 460, 145)
	c.text(415, 136, "small", "Take")
	c.arrow("", 590, 130, 640, 130, 640, 65, 720, 65)
	c.text(660, 112, "small", "Add")
	c.arrow("", 720, 45, 305, 45, 305, 110)
	c.text(512, 36, "small", "Done: ready again")
	c.arrow("", 590, 165, 640, 165, 640, 235, 720, 235)
	c.text(680, 228, "small", "last")
	c.text(680, 252, "small", "failure")
	c.arrow("", 525, 180, 525, 225, 85, 225, 85, 180)
	c.text(205, 216, "small", "Done; due again after a backoff")
	c.arrow("", 795, 270, 795, 290, 335, 290, 335, 180)
	c.text(560, 282, "small", "Add: revived, with all attempts")
	return c
}

// failover shows that a leader stops before another begins.
func failover() *canvas {
	c := newCanvas(900, 250, "A failover: the leader stops acting before its lease can be over for any other process.")
	c.text(20, 74, "left", "leader A")
	c.text(20, 154, "left", "follower B")
	c.add(`<line x1="100" y1="87" x2="880" y2="87" class="lane"/>`)
	c.add(`<line x1="100" y1="167" x2="880" y2="167" class="lane"/>`)
	c.bar(130, 60, 300, "good", "acts, for RenewDeadline (10 s)")
	c.bar(430, 60, 120, "wait", "drains")
	c.text(462, 104, "small", "StepDownTimeout (2.5 s)")
	c.bar(175, 140, 475, "wait", "sees no change, for LeaseDuration (15 s)")
	c.bar(650, 140, 220, "good", "leads, with the next term")
	c.mark(130, 40, 190, "A sends a renewal")
	c.mark(175, 140, 205, "")
	c.text(175, 222, "small", "B has read it")
	c.mark(550, 40, 205, "the work of A has returned")
	c.mark(650, 60, 205, "")
	c.text(705, 50, "small", "B replaces the record")
	c.text(600, 222, "small", "the margin: clocks may differ", "in speed by a fifth")
	return c
}

// fence shows a write of a former leader.
func fence() *canvas {
	c := newCanvas(900, 280, "A fenced write: the store refuses the write of a former leader, because it has seen a greater term.")
	for i, name := range []string{"A, term 7", "store", "B, term 8"} {
		y := 64 + i*80
		c.text(20, y+5, "left", name)
		c.add(`<line x1="110" y1="%d" x2="880" y2="%[1]d" class="lane"/>`, y)
	}
	c.bar(130, 51, 130, "good", "decides to write")
	c.bar(260, 51, 390, "bad", "suspended: a pause, a swap, a sleeping laptop")
	c.bar(650, 51, 110, "good", "writes, term 7")
	c.bar(380, 211, 150, "good", "leads, term 8")
	c.arrow("", 500, 211, 550, 157)
	c.text(590, 190, "small", "writes, term 8")
	c.bar(530, 131, 110, "good", "accepts")
	c.arrow("", 705, 77, 730, 131)
	c.bar(675, 131, 180, "bad", "refuses: ErrFenced")
	c.text(450, 272, "small", "A lease alone cannot stop the late write. The receiver can: it refuses terms below the greatest that it has seen.")
	return c
}
