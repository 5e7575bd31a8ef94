package policy

import (
	"fmt"
	"strings"

	"headrace"
)

// A Note says, for a person, why a task that waits is not ordered to run.
type Note struct {
	Task   headrace.TaskID
	Reason string
}

// Explain is Decide together with a note for every task that goes on waiting, in
// the order of the queue.
func Explain(v headrace.View, c Config) ([]headrace.Order, []Note) {
	d := decide(&v, c, true)
	return d.orders, d.notes
}

func (d *decision) note(u *task, words ...string) {
	if d.explain {
		d.notes = append(d.notes, Note{u.ID, strings.Join(words, "")})
	}
}

// notePlan says what u waits for, now that room is made for it.
func (d *decision) notePlan(u *task, p *plan) {
	if !d.explain {
		return
	}
	for _, a := range p.acts {
		if a.mech == headrace.Wait {
			d.note(u, "waits for ", string(a.t.ID), " to end on ", string(p.n.ID), ", in about ", short(remaining(a.t.TaskView).Seconds()), ": cheaper than to preempt")
			return
		}
	}
	d.note(u, "room is being made on ", string(p.n.ID), ", in about ", short(p.cost.delay))
}

// noteNowhere says that u can wait for no node.
func (d *decision) noteNowhere(u *task) {
	if d.explain {
		d.note(u, nowhere(u))
	}
}

func nowhere(u *task) string {
	if u.Node != "" && u.n == nil {
		return fmt.Sprintf("its node %s is not there", u.Node)
	}
	return "no node is large enough for it"
}

// noteRefusal says what u waits for when nobody leaves for it: where there is a
// less urgent task, why that one does not.
func (d *decision) noteRefusal(u *task, s spots) {
	if !d.explain {
		return
	}
	for _, n := range d.list(u, s) {
		if n.lowest >= u.Priority {
			continue
		}
		d.rank(n)
		for _, v := range n.running {
			if !v.settled && v.Priority < u.Priority {
				d.note(u, "waits for room: ", d.whyNot(u, v))
				return
			}
		}
	}
	d.note(u, "waits for room")
}

// whyNot says why v does not leave for u by the policy.
func (d *decision) whyNot(u, v *task) string {
	if d.c.Policy == Wait {
		return "the policy is to wait"
	}
	if d.c.protected(v.TaskView, u.eff) {
		return fmt.Sprintf("%s may not leave yet: %s", v.ID, d.c.protection(v.TaskView))
	}
	a := act{v, headrace.Suspend, -1}
	suspend, checkpoint := d.refusal(u, a, d.balance(u, v.n).with(a)), d.noCheckpoint(v)
	switch {
	case d.c.attempts > 0 && d.attempts > d.c.attempts:
		return "others come first in looking for victims"
	case d.c.Policy != Suspend && d.c.Policy != Checkpoint || suspend == "" || checkpoint == "":
		return fmt.Sprintf("all that may leave on %s would not make enough", v.n.ID)
	case suspend == checkpoint:
		return fmt.Sprintf("%s can be neither suspended nor checkpointed: %s", v.ID, suspend)
	}
	return fmt.Sprintf("%s cannot be suspended (%s) and not checkpointed (%s)", v.ID, suspend, checkpoint)
}
