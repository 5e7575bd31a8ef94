package work

import (
	"flag"
	"fmt"
	"math"
	"unsafe"
)

const (
	kmeansDims  = 8
	kmeansMeans = 8
	// kmeansPoint is the memory for one point: its coordinates, and the number
	// of the mean that it belongs to.
	kmeansPoint = kmeansDims*4 + 4
	// kmeansChunk is how many points go between two looks at the clock.
	kmeansChunk = 4096
)

// kmeans finds the means of random points, the program of both experiments with
// real applications (checkpoint-preemption, sections 3.3.3 and 4.2.2).
type kmeans struct {
	bytes      Size
	iterations int
	seed       uint64

	points []float32
	member []uint32
	means  [kmeansMeans][kmeansDims]float32
}

func newKmeans(fs *flag.FlagSet) work {
	k := &kmeans{}
	fs.Var(&k.bytes, "bytes", "memory for the points")
	fs.IntVar(&k.iterations, "iterations", 10, "passes over the points")
	fs.Uint64Var(&k.seed, "seed", 1, "of the points")
	return k
}

func (k *kmeans) run(m *meter) (uint64, error) {
	if k.iterations < 1 {
		return 0, fmt.Errorf("%d iterations: want at least one", k.iterations)
	}
	if err := k.place(); err != nil {
		return 0, err
	}
	// Filling takes about as long as half a pass.
	all := float64(k.iterations) + 0.5
	k.fill(func(share float64) { m.set(share * 0.5 / all) })
	for i := range k.iterations {
		k.step(func(share float64) { m.set((0.5 + float64(i) + share) / all) })
	}
	return k.sum(), nil
}

func (k *kmeans) place() error {
	n := int(int64(k.bytes) / kmeansPoint)
	if n < kmeansMeans {
		return fmt.Errorf("%d bytes: want at least %d for %d points", k.bytes, kmeansMeans*kmeansPoint, kmeansMeans)
	}
	coordinates, err := allocate(int64(n) * kmeansDims * 4)
	if err != nil {
		return err
	}
	members, err := allocate(int64(n) * 4)
	if err != nil {
		return err
	}
	k.points = unsafe.Slice((*float32)(unsafe.Pointer(&coordinates[0])), n*kmeansDims)
	k.member = unsafe.Slice((*uint32)(unsafe.Pointer(&members[0])), n)
	return nil
}

// fill scatters the points around as many centres as there are means, and takes
// the first points as means.
func (k *kmeans) fill(tell func(share float64)) {
	r := Random(k.seed)
	for i := range k.member {
		centre := float32(i%kmeansMeans) / 2
		for d := range kmeansDims {
			k.points[i*kmeansDims+d] = centre + float32(r.Next()>>40)/(1<<24)
		}
		k.member[i] = math.MaxUint32
		if i%kmeansChunk == 0 {
			tell(float64(i) / float64(len(k.member)))
		}
	}
	for i := range k.means {
		copy(k.means[i][:], k.points[i*kmeansDims:])
	}
}

// step assigns every point to the nearest mean and moves the means.
func (k *kmeans) step(tell func(share float64)) {
	var total [kmeansMeans][kmeansDims]float64
	var count [kmeansMeans]float64
	for i := range k.member {
		p := (*[kmeansDims]float32)(k.points[i*kmeansDims:])
		best := k.nearest(p)
		k.member[i] = uint32(best)
		count[best]++
		for d, v := range p {
			total[best][d] += float64(v)
		}
		if i%kmeansChunk == 0 {
			tell(float64(i) / float64(len(k.member)))
		}
	}
	for c := range k.means {
		if count[c] == 0 {
			continue
		}
		for d := range kmeansDims {
			k.means[c][d] = float32(total[c][d] / count[c])
		}
	}
}

func (k *kmeans) nearest(p *[kmeansDims]float32) int {
	best, least := 0, float32(math.MaxFloat32)
	for c := range k.means {
		m := &k.means[c]
		var far float32
		for d, v := range p {
			// The conversion keeps every processor from fusing the two operations,
			// so that the answer is the same everywhere.
			far += float32((v - m[d]) * (v - m[d]))
		}
		if far < least {
			best, least = c, far
		}
	}
	return best
}

// sum depends on every mean and on every point's place.
func (k *kmeans) sum() uint64 {
	var s uint64
	for _, m := range k.means {
		for _, v := range m {
			s = fold(s, uint64(math.Float32bits(v)))
		}
	}
	for i, c := range k.member {
		s += uint64(c+1) * (uint64(i) + 0x9e3779b97f4a7c15)
	}
	return s
}
