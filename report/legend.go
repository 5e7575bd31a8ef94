package report

// A key is one entry of a legend. Its sign is drawn from x on, 18 pixels wide,
// around y.
type key struct {
	label string
	sign  func(x, y float64)
}

// legend writes the keys in lines from y on and returns where it ends.
func (b *svg) legend(y, width float64, keys []key) float64 {
	x := 0.0
	for _, k := range keys {
		need := 24 + pixels(clean(k.label), 12) + 18
		if x > 0 && x+need-18 > width {
			x, y = 0, y+legendRow
		}
		k.sign(x, y+10)
		b.name("muted", atStart, x+24, y+14, 12, width-x-24, k.label)
		x += need
	}
	b.WriteString("\n")
	return y + legendRow
}

// target draws the sign for a value that is known from elsewhere, across a bar.
func (b *svg) target(x, mid, height float64) {
	b.line("target-ground", x, mid-height/2, x, mid+height/2)
	b.line("target", x, mid-height/2, x, mid+height/2)
}

// targetKey returns the entry of that sign.
func (b *svg) targetKey(label string) key {
	return key{label, func(x, y float64) { b.target(x+9, y, barHeight+4) }}
}
