package capacity

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"headrace/policy"
)

func TestParseQueues(t *testing.T) {
	got, err := ParseQueues([]string{"low=10:0-8", "mid=20:normal:50", "high=70:9-11:90:1"})
	want := []Queue{{"low", 10, 100, 0, 0, 8}, {"mid", 20, 50, 0, 4, 4}, {"high", 70, 90, 1, 9, 11}}
	if err != nil || len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"", "low", "low=10", "low=ten:0-8", "low=10:8-0x", "low=10:0-8:1:2:3", "low=10:0-12", "low=10:0-8:all", "low=10:0-8:100:x"} {
		if _, err := ParseQueues([]string{bad}); err == nil || !strings.Contains(err.Error(), "want NAME=CAPACITY:PRIORITIES") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSet(t *testing.T) {
	c := DefaultConfig()
	for property, value := range map[string]string{
		"heartbeat-interval-ms": "200", "yarn.resourcemanager.monitor.capacity.preemption.monitoring_interval": "500",
		"max_wait_before_kill": "1000", "total_preemption_per_round": "1", "natural_termination_factor": "0.5", "max_ignored_over_capacity": "0.3",
		"intra-queue-preemption.enabled": "true", "after-ms": "30000",
	} {
		if err := c.Set(property, value); err != nil {
			t.Error(err)
		}
	}
	want := Config{Queues: c.Queues, Heartbeat: 200 * time.Millisecond, Monitor: 500 * time.Millisecond, Warning: time.Second,
		PerRound: 1, NaturalTermination: 0.5, Ignored: 0.3, IntraQueue: true, Elsewhere: 30 * time.Second}
	c.Queues, want.Queues = nil, nil
	if a, b := c, want; a.Heartbeat != b.Heartbeat || a.Monitor != b.Monitor || a.Warning != b.Warning || a.PerRound != b.PerRound ||
		a.NaturalTermination != b.NaturalTermination || a.Ignored != b.Ignored || a.IntraQueue != b.IntraQueue || a.Elsewhere != b.Elsewhere {
		t.Errorf("%+v, want %+v", c, want)
	}
	for property, value := range map[string]string{"interval": "5", "monitoring_interval": "5s", "": "1", "total_preemption_per_round": "most"} {
		if err := c.Set(property, value); err == nil {
			t.Errorf("%s=%s: no error", property, value)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Config){
		"heartbeat":                  func(c *Config) { c.Heartbeat = 0 },
		"monitoring interval":        func(c *Config) { c.Monitor = -1 },
		"times cannot":               func(c *Config) { c.Elsewhere = -1 },
		"preemption per round":       func(c *Config) { c.PerRound = 0 },
		"natural termination":        func(c *Config) { c.NaturalTermination = math.NaN() },
		"ignored over capacity":      func(c *Config) { c.Ignored = -1 },
		"add up to 95 %":             func(c *Config) { c.Queues[0].Capacity = 5 },
		"a name of its own":          func(c *Config) { c.Queues[1].Name = "low" },
		"2 queues take tasks of":     func(c *Config) { c.Queues[0].Most = 9 },
		"0 queues take tasks of":     func(c *Config) { c.Queues[0].Most = 7 },
		"maximum of 80 %":            func(c *Config) { c.Queues[1].Maximum = 80 },
		"capacity of -1 %":           func(c *Config) { c.Queues[0].Capacity, c.Queues[1].Capacity = -1, 101 },
		"maximum of 0 %":             func(c *Config) { c.Queues[0].Capacity, c.Queues[0].Maximum, c.Queues[1].Capacity = 0, 0, 100 },
		"takes priorities 0 to 200":  func(c *Config) { c.Queues[0].Most = 200 },
		"the capacities of queues a": func(c *Config) { c.Queues = nil },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

// TestExcess is what queues ought to have and give back, as shares of a cluster.
func TestExcess(t *testing.T) {
	type use struct{ capacity, used, pending float64 }
	for _, tt := range []struct {
		name    string
		queues  []use
		change  func(*Config)
		ideal   []float64
		returns []float64
	}{
		{"nobody wants anything", []use{{10, 1, 0}, {90, 0, 0}}, nil, []float64{1, 0}, []float64{0, 0}},
		{"there is room for all", []use{{10, 0.5, 0}, {90, 0, 0.5}}, nil, []float64{0.5, 0.5}, []float64{0, 0}},
		{"what is guaranteed is given back", []use{{10, 1, 0}, {90, 0, 2}}, nil, []float64{0.1, 0.9}, []float64{0.9, 0}},
		{"as much as is asked for", []use{{10, 1, 0}, {90, 0, 0.25}}, nil, []float64{0.75, 0.25}, []float64{0.25, 0}},
		{"no more for who has its guarantee", []use{{50, 0.5, 1}, {50, 0.5, 1}}, nil, []float64{0.5, 0.5}, []float64{0, 0}},
		{"the rest by guarantees", []use{{20, 0, 1}, {20, 0, 1}, {60, 1, 0}}, nil, []float64{0.2, 0.2, 0.6}, []float64{0, 0, 0.4}},
		{"who is guaranteed nothing gives all back", []use{{0, 1, 0}, {100, 0, 2}}, nil, []float64{0, 1}, []float64{1, 0}},
		{"and keeps what nobody else asks for", []use{{0, 1, 1}, {100, 0, 0.25}}, nil, []float64{0.75, 0.25}, []float64{0.25, 0}},
		{"what is left goes in equal parts to those without a guarantee", []use{{0, 0.5, 0}, {0, 0.3, 0}, {100, 0.2, 0.5}}, nil, []float64{0.15, 0.15, 0.7}, []float64{0.35, 0.15, 0}},
		{"or to the one of the highest priority", []use{{0, 0.5, 0}, {0, 0.3, 0}, {100, 0.2, 0.5}}, func(c *Config) { c.Queues[1].Priority = 1 }, []float64{0, 0.3, 0.7}, []float64{0.5, 0, 0}},
		{"who is guaranteed nothing takes nothing back", []use{{0, 0.6, 0}, {0, 0, 1}, {100, 0.2, 0.2}}, nil, []float64{0.6, 0, 0.4}, []float64{0, 0, 0}},
		{"a little too much is ignored", []use{{50, 0.52, 0}, {50, 0.48, 1}}, func(c *Config) { c.Ignored = 0.1 }, []float64{0.5, 0.5}, []float64{0, 0}},
		{"some in a round", []use{{10, 1, 0}, {90, 0, 2}}, func(c *Config) { c.PerRound, c.NaturalTermination = 0.3, 0.5 }, []float64{0.1, 0.9}, []float64{0.15, 0}},
	} {
		c := DefaultConfig()
		c.PerRound, c.NaturalTermination, c.Ignored, c.Queues = 1, 1, 0, nil
		for range tt.queues {
			c.Queues = append(c.Queues, Queue{Maximum: 100})
		}
		if tt.change != nil {
			tt.change(&c)
		}
		for i, q := range tt.queues {
			c.Queues[i].Capacity = q.capacity
		}
		s := New(c, policy.Config{}, 0, nil)
		s.all = amount{1, 1 << 40}
		for i, q := range tt.queues {
			s.queues[i].used.cpus, s.queues[i].pending.cpus = q.used, q.pending
		}
		for what, x := range map[string][2][]float64{"ought to have": {s.ideal(), tt.ideal}, "give back": {s.excess(), tt.returns}} {
			for i := range x[0] {
				if math.Abs(x[0][i]-x[1][i]) > 1e-4 {
					t.Errorf("%s: they %s %v, want %v", tt.name, what, x[0], x[1])
					break
				}
			}
		}
	}
}

// TestInTurn is in which order queues are offered room: who is guaranteed nothing comes last, whatever its priority.
func TestInTurn(t *testing.T) {
	type use struct {
		capacity, used float64
		priority       int
	}
	for _, tt := range []struct {
		name   string
		queues []use
		want   []int
	}{
		{"who has least of its guarantee", []use{{50, 0.3, 0}, {10, 0.05, 0}, {40, 0.3, 0}}, []int{1, 0, 2}},
		{"by priority below the guarantee", []use{{50, 0.1, 0}, {50, 0.3, 1}}, []int{1, 0}},
		{"who has its guarantee after who has not", []use{{50, 0.1, 0}, {50, 0.5, 1}}, []int{0, 1}},
		{"who is guaranteed nothing last", []use{{0, 0, 1}, {40, 0.6, 0}, {60, 0.4, 0}}, []int{2, 1, 0}},
		{"of those who has least", []use{{0, 0.4, 0}, {0, 0.3, 0}, {100, 0.3, 0}}, []int{2, 1, 0}},
		{"of those by priority", []use{{0, 0.1, 0}, {0, 0.3, 1}, {100, 0.6, 0}}, []int{2, 1, 0}},
	} {
		c := DefaultConfig()
		c.Queues = nil
		for i, q := range tt.queues {
			c.Queues = append(c.Queues, Queue{Name: strconv.Itoa(i), Capacity: q.capacity, Maximum: 100, Priority: q.priority})
		}
		s := New(c, policy.Config{}, 0, nil)
		s.all = amount{1, 1 << 40}
		for i, q := range tt.queues {
			s.queues[i].used.cpus = q.used
		}
		for i, q := range s.inTurn() {
			if q.Name != strconv.Itoa(tt.want[i]) {
				t.Errorf("%s: %s is number %d, want %d", tt.name, q.Name, i, tt.want[i])
			}
		}
	}
}
