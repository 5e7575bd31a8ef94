package replica

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// layout is how a block pool is laid out on a volume, by the number of Hadoop's
// DataNodeLayoutVersion.
type layout int

const (
	layout256 layout = -56
	layout32  layout = -57
)

// subdir returns where the layout has a finalized block, below finalized.
func (l layout) subdir(number int64) string {
	mask := int64(0x1f)
	if l == layout256 {
		mask = 0xff
	}
	return fmt.Sprintf("subdir%d/subdir%d", number>>16&mask, number>>8&mask)
}

// maxVersion bounds a VERSION file, in bytes.
const maxVersion = 64 << 10

// readVersion reads the VERSION file of a block pool: Java properties, of which the
// layout and the pool's name are wanted.
func readVersion(r io.Reader, pool string) (layout, error) {
	values := map[string]string{}
	lines := bufio.NewScanner(io.LimitReader(r, maxVersion))
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), "="); ok {
			// Java writes \: for a colon and so on.
			values[strings.TrimSpace(key)] = strings.ReplaceAll(strings.TrimSpace(value), `\`, "")
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(values["layoutVersion"])
	switch l := layout(n); {
	case err != nil:
		return 0, fmt.Errorf("its file VERSION says no layout")
	case values["blockpoolID"] != pool:
		return 0, fmt.Errorf("its file VERSION is that of block pool %q, not of %s", values["blockpoolID"], pool)
	case l != layout256 && l != layout32:
		return 0, fmt.Errorf("its layout is %d, of a Hadoop that is older than 2.6 or newer than this Headrace; known are %d and %d", n, layout256, layout32)
	default:
		return l, nil
	}
}
