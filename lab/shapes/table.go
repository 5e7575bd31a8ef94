package shapes

import (
	"headrace"
	"headrace/sim"
)

// alike returns a number of nodes of one kind.
func alike(n int, cpus float64, memory int64) sim.Kind {
	return sim.Kind{Nodes: n, CPUs: cpus, Memory: memory * gib}
}

// with returns k with GPUs.
func with(k sim.Kind, gpus float64) sim.Kind {
	k.Counted = map[string]float64{gpu: gpus}
	return k
}

// swapping returns k with so many GiB of swap.
func swapping(k sim.Kind, swap int64) sim.Kind {
	k.Swap = swap * gib
	return k
}

// All returns the shapes, in the order in which they are run. A new one goes to the end of
// its half; what an old one draws stays as it is, or figures of before cannot be had again.
func All() []Shape {
	return []Shape{
		{Name: "heavy-tail", Half: Looked, What: "run times by a power law: half a minute to most of a day", Nodes: []sim.Kind{alike(5, 8, 48)},
			draw: func(d dice) job {
				return job{at: d.Float64(), priority: d.band(0.5, 0.3), run: d.pareto(0.9, 30, 60000), cpus: pick[float32](d, 1, 1, 2, 4), memory: pick(d, 1.0, 2, 8)}
			}},
		{Name: "bursts", Half: Looked, What: "all jobs come in the first thirtieth of each of 24 hours", Nodes: []sim.Kind{alike(8, 16, 64)},
			draw: func(d dice) job {
				return job{at: d.peaks(24, 1.0/30), priority: d.band(0.5, 0.3), tasks: pick(d, 1, 5, 20), run: d.lognormal(600, 0.8, 10, 9000), cpus: 1, memory: pick(d, 1.0, 2, 4)}
			}},
		{Name: "one-user", Half: Looked, What: "one user has four fifths of the work", Nodes: []sim.Kind{alike(4, 16, 48)},
			draw: func(d dice) job {
				j := job{at: d.Float64(), priority: d.band(0.5, 0.3), run: d.lognormal(700, 1, 10, 20000), cpus: pick[float32](d, 1, 2), memory: 2}
				if d.chance(0.8) {
					j.user = "most"
				}
				return j
			}},
		{Name: "over-half", Half: Looked, What: "tasks of more than half a node, beside small ones", Nodes: []sim.Kind{alike(6, 16, 64)},
			draw: func(d dice) job {
				j := job{at: d.Float64(), priority: d.band(0.5, 0.3), run: d.lognormal(900, 1, 20, 20000), cpus: pick[float32](d, 1, 2, 3, 9, 10, 12, 14), memory: pick(d, 1.0, 4, 34, 40)}
				if j.priority == urgent {
					j.run, j.cpus = j.run/3, pick[float32](d, 2, 9, 12, 16)
				}
				return j
			}},
		{Name: "unlike-nodes", Half: Looked, What: "large, middle and small nodes; tasks that fit on some only", Nodes: []sim.Kind{alike(2, 32, 128), alike(3, 8, 64), alike(4, 4, 16)},
			draw: func(d dice) job {
				return job{at: d.Float64(), priority: d.band(0.5, 0.3), run: d.lognormal(800, 1.2, 10, 30000), cpus: pick[float32](d, 1, 1, 2, 4, 8, 20), memory: pick(d, 1.0, 2, 4, 16, 60)}
			}},
		{Name: "urgent-seconds", Half: Looked, What: "urgent tasks of seconds over others of hours", Nodes: []sim.Kind{alike(4, 8, 32)},
			draw: func(d dice) job {
				j := job{at: d.Float64(), priority: d.band(0.15, 0.1), run: d.lognormal(5400, 0.8, 60, 40000), cpus: pick[float32](d, 1, 2), memory: pick(d, 2.0, 6)}
				if j.priority == urgent {
					j.run = d.lognormal(20, 0.6, 2, 120)
				}
				return j
			}},
		{Name: "gpus", Half: Looked, What: "two of five tasks need one to four GPUs, which half of the nodes have", Nodes: []sim.Kind{alike(3, 16, 64), with(alike(3, 16, 64), 4)},
			draw: func(d dice) job {
				j := job{at: d.Float64(), priority: d.band(0.5, 0.3), run: d.lognormal(1200, 1, 20, 20000), cpus: pick[float32](d, 1, 2, 4), memory: pick(d, 2.0, 8)}
				if d.chance(0.4) {
					j.gpus = pick[float32](d, 1, 1, 2, 4)
				}
				return j
			}},
		{Name: "gangs", Half: Looked, What: "half of the jobs are gangs of 4 to 16 tasks", Nodes: []sim.Kind{alike(6, 16, 64)},
			draw: func(d dice) job {
				n := pick(d, 1, 1, 1, 4, 8, 16)
				return job{at: d.Float64(), priority: d.band(0.5, 0.3), tasks: n, gang: n > 1, run: d.lognormal(900, 1, 20, 15000), cpus: pick[float32](d, 1, 2, 4), memory: pick(d, 1.0, 2, 4)}
			}},
		{Name: "stages", Half: Looked, What: "jobs of one to four stages, each of which waits for the one before", Nodes: []sim.Kind{alike(5, 16, 64)},
			draw: func(d dice) job {
				n := 1 + d.IntN(4)
				return job{at: d.Float64(), priority: d.band(0.5, 0.3), tasks: n * pick(d, 1, 4, 10), stages: n, run: d.lognormal(400, 0.8, 10, 5000), cpus: pick[float32](d, 1, 2), memory: pick(d, 1.0, 2, 6)}
			}},
		{Name: "small-store", Half: Looked, What: "stores for checkpoints hold less than half of the memory, swap an eighth", Nodes: []sim.Kind{swapping(alike(5, 16, 64), 8)}, Store: 24 * gib,
			draw: func(d dice) job {
				return job{at: d.Float64(), priority: d.band(0.5, 0.3), run: d.lognormal(900, 1, 20, 20000), cpus: pick[float32](d, 1, 2, 4), memory: pick(d, 4.0, 8, 16), changes: 0.01}
			}},
		{Name: "night-batch", Half: Looked, What: "services of hours, and a batch that comes at once", Nodes: []sim.Kind{alike(4, 16, 64)},
			draw: func(d dice) job {
				if d.chance(0.1) {
					return job{at: d.Float64(), priority: urgent, run: d.lognormal(14400, 0.4, 3600, 40000), cpus: pick[float32](d, 2, 4), memory: 6}
				}
				return job{at: d.peaks(1, 0.1), priority: d.band(0.8, 0.2), tasks: pick(d, 1, 10), run: d.lognormal(600, 0.7, 20, 6000), cpus: 1, memory: pick(d, 1.0, 3)}
			}},

		{Name: "minutes-days", Half: Judged, What: "one task of twenty runs for a day, the others for minutes", Nodes: []sim.Kind{alike(6, 8, 32)},
			draw: func(d dice) job {
				j := job{at: d.Float64(), priority: d.band(0.5, 0.3), run: d.lognormal(180, 0.8, 10, 900), cpus: pick[float32](d, 1, 2), memory: pick(d, 1.0, 4)}
				if d.chance(0.05) {
					j.run = d.between(20000, 90000)
				}
				return j
			}},
		{Name: "waves", Half: Judged, What: "six waves, each of which fills the cluster", Nodes: []sim.Kind{alike(10, 8, 32)},
			draw: func(d dice) job {
				return job{at: d.peaks(6, 1.0/12), priority: d.band(0.5, 0.3), run: d.lognormal(500, 0.7, 10, 5000), cpus: pick[float32](d, 1, 2), memory: pick(d, 1.0, 2, 6)}
			}},
		{Name: "large-memory", Half: Judged, What: "tasks of 8 to 50 GB, a third as much swap as memory", Nodes: []sim.Kind{swapping(alike(6, 16, 96), 32)},
			draw: func(d dice) job {
				return job{at: d.Float64(), priority: d.band(0.5, 0.3), run: d.lognormal(900, 1, 20, 20000), cpus: pick[float32](d, 1, 2, 4), memory: pick(d, 8.0, 16, 30, 50)}
			}},
		{Name: "over-half-memory", Half: Judged, What: "tasks of more than half of a node's processors or memory, hours long", Nodes: []sim.Kind{alike(8, 8, 32)},
			draw: func(d dice) job {
				return job{at: d.Float64(), priority: d.band(0.5, 0.3), run: d.lognormal(1500, 0.7, 60, 9000), cpus: pick[float32](d, 1, 2, 5, 6, 7, 8), memory: pick(d, 2.0, 6, 20)}
			}},
		{Name: "many-processors", Half: Judged, What: "nodes of 64 processors, tasks of one to half a node", Nodes: []sim.Kind{alike(3, 64, 256)},
			draw: func(d dice) job {
				return job{at: d.Float64(), priority: d.band(0.5, 0.3), run: d.lognormal(1200, 1, 20, 20000), cpus: pick[float32](d, 1, 2, 4, 8, 16, 32), memory: pick(d, 1.0, 4, 16)}
			}},
		{Name: "one-large-node", Half: Judged, What: "one large node beside four middle and two small ones", Nodes: []sim.Kind{alike(1, 32, 256), alike(4, 16, 64), alike(2, 8, 16)},
			draw: func(d dice) job {
				return job{at: d.Float64(), priority: d.band(0.5, 0.3), run: d.lognormal(1500, 1, 10, 30000), cpus: pick[float32](d, 1, 2, 3, 6, 12), memory: pick(d, 1.0, 4, 12, 24)}
			}},
		{Name: "five-priorities", Half: Judged, What: "five priorities, all alike", Nodes: []sim.Kind{alike(5, 8, 32)},
			draw: func(d dice) job {
				return job{at: d.Float64(), priority: pick[headrace.Priority](d, 0, 1, 3, 6, 10), run: d.lognormal(700, 1, 10, 15000), cpus: pick[float32](d, 1, 2, 4), memory: pick(d, 1.0, 4)}
			}},
		{Name: "urgent-hours", Half: Judged, What: "urgent tasks of hours over others of minutes", Nodes: []sim.Kind{alike(4, 16, 64)},
			draw: func(d dice) job {
				j := job{at: d.Float64(), priority: d.band(0.6, 0.3), run: d.lognormal(900, 1, 20, 20000), cpus: pick[float32](d, 1, 2), memory: pick(d, 2.0, 4)}
				if j.priority == urgent {
					j.run = d.lognormal(7200, 0.5, 900, 20000)
				}
				return j
			}},
		{Name: "gpus-bursts", Half: Judged, What: "bursts; three of ten tasks need one or two GPUs, which a third of the nodes have", Nodes: []sim.Kind{alike(4, 8, 48), with(alike(2, 16, 64), 4)},
			draw: func(d dice) job {
				j := job{at: d.peaks(12, 0.2), priority: d.band(0.5, 0.3), run: d.lognormal(900, 1, 20, 20000), cpus: pick[float32](d, 1, 2), memory: pick(d, 2.0, 8)}
				if d.chance(0.3) {
					j.gpus = pick[float32](d, 1, 2)
				}
				return j
			}},
		{Name: "large-gangs", Half: Judged, What: "gangs of up to 24 tasks, which fill half of the cluster", Nodes: []sim.Kind{alike(5, 8, 48)},
			draw: func(d dice) job {
				n := pick(d, 1, 1, 2, 3, 6, 24)
				j := job{at: d.Float64(), priority: d.band(0.5, 0.3), tasks: n, gang: n > 1, run: d.lognormal(1500, 0.8, 60, 15000), cpus: pick[float32](d, 1, 2), memory: pick(d, 2.0, 6)}
				if n == 24 {
					j.cpus = 1
				}
				return j
			}},
		{Name: "fan-in", Half: Judged, What: "jobs of several stages side by side, and one that waits for all of them", Nodes: []sim.Kind{alike(6, 8, 48)},
			draw: func(d dice) job {
				n := 2 + d.IntN(3)
				return job{at: d.Float64(), priority: d.band(0.5, 0.3), tasks: n * pick(d, 1, 3, 8), stages: n, fan: true, run: d.lognormal(600, 1, 10, 8000), cpus: pick[float32](d, 1, 2), memory: pick(d, 1.0, 4)}
			}},
		{Name: "slow-store", Half: Judged, What: "checkpoints on hard disks, and a slow network between the nodes", Nodes: []sim.Kind{swapping(alike(5, 16, 64), 16)}, Medium: "hdd", Net: 30e6,
			draw: func(d dice) job {
				return job{at: d.Float64(), priority: d.band(0.5, 0.3), run: d.lognormal(900, 1, 20, 20000), cpus: pick[float32](d, 1, 2, 4), memory: pick(d, 4.0, 8, 16), changes: 0.01}
			}},
		{Name: "all-changed", Half: Judged, What: "tasks change all of their memory each second, so that no checkpoint builds on another", Nodes: []sim.Kind{swapping(alike(5, 16, 64), 16)}, Store: 64 * gib,
			draw: func(d dice) job {
				return job{at: d.Float64(), priority: d.band(0.5, 0.3), run: d.lognormal(900, 1, 20, 20000), cpus: pick[float32](d, 1, 2, 4), memory: pick(d, 4.0, 8, 16), changes: 1}
			}},
	}
}
