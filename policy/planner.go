package policy

import "headrace"

// Planner decides as Decide does, again and again, and keeps its memory from one
// call to the next. What it decides depends on the view alone. It must not be used
// by two goroutines at once.
type Planner struct {
	d *decision
}

// NewPlanner is a planner for c, which must be valid (Config.Validate).
func NewPlanner(c Config) *Planner { return &Planner{prepare(c)} }

// Decide is Decide for v, which is not changed, nor read after the call. The
// orders are valid until the next call.
func (p *Planner) Decide(v *headrace.View) []headrace.Order {
	p.d.decide(v)
	return p.d.orders
}
