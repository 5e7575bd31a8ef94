package capacity

import (
	"time"

	"headrace"
	"headrace/policy"
)

// Scheduler is YARN for one run. It remembers what it has seen: it is asked about one
// cluster, whose nodes stay the same, at times that do not go back. Not safe for
// concurrent use.
type Scheduler struct {
	c        Config
	policy   policy.Config
	interval time.Duration
	now      func() time.Duration

	queues []*queue
	nodes  []*node
	byNode map[headrace.NodeID]*node
	tasks  map[headrace.TaskID]*task
	// order are the tasks of the last look, in its order; spare the room of those before.
	order, spare []*task
	jobs         map[headrace.JobID]int
	all          amount
	// free is what nobody holds of all nodes, and no node is kept for; parked are the
	// tasks that were put aside.
	free   amount
	parked []*task

	looks      int // so far
	containers int // begun so far
	// looked is when it was looked last who has to give way, monitor when it is looked next, and next when there is
	// something to do next.
	looked, monitor, next time.Duration
	scenes                map[*node]*policy.Scene // of the victims of one look
	orders                []headrace.Order
}

// New makes a scheduler that knows the time by now, and has tasks give way as the
// manager does with p. c and p must be valid. It is asked no more often than once in
// interval, and then does what was due in that time.
func New(c Config, p policy.Config, interval time.Duration, now func() time.Duration) *Scheduler {
	s := &Scheduler{
		c: c, policy: p, interval: interval, now: now, byNode: map[headrace.NodeID]*node{},
		tasks: map[headrace.TaskID]*task{}, jobs: map[headrace.JobID]int{}, scenes: map[*node]*policy.Scene{},
	}
	for i := range c.Queues {
		s.queues = append(s.queues, &queue{Queue: &c.Queues[i]})
	}
	return s
}

// Decide returns what is to be done now. The orders are valid until the next call.
func (s *Scheduler) Decide(v *headrace.View) []headrace.Order {
	now := s.now()
	s.orders = s.orders[:0]
	s.look(v, now)
	s.goOn(now)
	for _, n := range s.nodes {
		if s.due(&n.beat, s.c.Heartbeat, now) {
			s.serve(n)
		}
	}
	s.tire(now)
	if s.policy.Policy != policy.Wait && s.due(&s.monitor, s.c.Monitor, now) {
		s.preempt(now)
	}
	s.next = s.monitor
	if s.policy.Policy == policy.Wait {
		s.next = s.nodes[0].beat
	}
	for _, n := range s.nodes {
		s.next = min(s.next, n.beat)
	}
	return s.orders
}

// Next returns when it is to be asked again though nothing has changed.
func (s *Scheduler) Next() time.Duration { return s.next }

// due reports whether it is time for what happens once in a period, and says when it is
// next. What has passed while nobody waited, and nothing was asked, is not made up for.
func (s *Scheduler) due(next *time.Duration, period, now time.Duration) bool {
	if late := now - s.interval - *next; late > 0 {
		*next += (late + period - 1) / period * period
	}
	if now < *next {
		return false
	}
	*next += ((now-*next)/period + 1) * period
	return true
}

// begin takes down the nodes, whose heartbeats come one after the other.
func (s *Scheduler) begin(nodes []headrace.NodeView) {
	for i := range nodes {
		v := &nodes[i]
		n := &node{all: amount{v.CPUs, v.Memory}, beat: s.c.Heartbeat * time.Duration(i) / time.Duration(len(nodes))}
		s.nodes = append(s.nodes, n)
		s.byNode[v.ID] = n
		s.all.add(n.all)
	}
	for _, q := range s.queues {
		q.guaranteed, q.most = s.all.times(q.Capacity/100), s.all.times(q.Maximum/100)
	}
}
