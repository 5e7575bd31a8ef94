package simulate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"headrace/cli"
	"headrace/sim"
)

// parseNodes reads --nodes: numbers of nodes to try, or the kinds of nodes that one
// cluster has.
func (f *clusterFlags) parseNodes() error {
	texts, err := cli.Lines("nodes", f.nodes)
	if err != nil {
		return err
	}
	for _, text := range texts {
		if k, ok := parseKind(text); ok {
			f.kinds = append(f.kinds, k)
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return cli.UsageErrorf("--nodes %q: want a number of nodes, or several with commas between them, such as 10,20,40; or the kinds of nodes, such as 20x16:64G,4x64:256G:gpu=8", text)
		}
		if !slices.Contains(f.sizes, n) {
			f.sizes = append(f.sizes, n)
		}
	}
	switch {
	case len(f.kinds) == 0:
	case len(f.sizes) > 0:
		return cli.UsageErrorf("--nodes: give numbers of nodes to try, or the kinds of nodes of one cluster (20x16:64G), not both")
	case f.cores > 0 || f.memory > 0 || len(f.has) > 0:
		return cli.UsageErrorf("--nodes says what each kind of node has: leave out --cores, --memory and --node-has")
	}
	return nil
}

// parseKind reads NUMBERxCORES:MEMORY[:NAME=NUMBER]... .
func parseKind(text string) (k sim.Kind, ok bool) {
	number, each, ok := strings.Cut(strings.TrimSpace(text), "x")
	if !ok {
		return k, false
	}
	parts := strings.Split(each, ":")
	if len(parts) < 2 {
		return k, false
	}
	cores, memory := parts[0], parts[1]
	n, err := strconv.Atoi(number)
	var c cli.CPUs
	var m cli.Size
	if err != nil || n < 1 || c.Set(cores) != nil || m.Set(memory) != nil || m <= 0 {
		return k, false
	}
	k = sim.Kind{Nodes: n, CPUs: float64(c), Memory: int64(m)}
	if len(parts) > 2 {
		k.Counted, err = parseCounted(parts[2:])
	}
	return k, err == nil
}

// parseCounted reads what a node has of what is counted: NAME=NUMBER, each name once.
func parseCounted(texts []string) (map[string]float64, error) {
	has := map[string]float64{}
	for _, text := range texts {
		name, number, _ := strings.Cut(strings.TrimSpace(text), "=")
		n, err := strconv.ParseFloat(number, 64)
		if _, again := has[name]; again || name == "" || err != nil || !(n >= 0 && n <= 1e9) {
			return nil, fmt.Errorf("%q: want NAME=NUMBER, such as gpu=8, and each name once", text)
		}
		has[name] = n
	}
	return has, nil
}

// placeKinds enters the kinds of nodes in c.
func (f *clusterFlags) placeKinds(c *sim.Config) {
	c.Nodes, c.Kinds = 0, slices.Clone(f.kinds)
	for i := range c.Kinds {
		k := &c.Kinds[i]
		if k.Swap = k.Memory; f.swapGiven {
			k.Swap = c.Node.Swap
		}
		c.Nodes += k.Nodes
	}
}
