package report

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

type rgb [3]float64 // linear, 0 to 1

func parseColour(t *testing.T, s string) (c rgb) {
	t.Helper()
	for i := range c {
		n, err := strconv.ParseUint(s[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		v := float64(n) / 255
		if v <= 0.04045 {
			c[i] = v / 12.92
		} else {
			c[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return c
}

func (c rgb) luminance() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

func contrast(a, b rgb) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// visions are matrices for linear RGB (Machado, Oliveira and Fernandes, 2009,
// severity 1).
var visions = map[string][3]rgb{
	"normal":       {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

func (c rgb) seen(m [3]rgb) rgb {
	var out rgb
	for i := range out {
		out[i] = max(0, m[i][0]*c[0]+m[i][1]*c[1]+m[i][2]*c[2])
	}
	return out
}

// oklab is Ottosson's uniform colour space, times 100.
func (c rgb) oklab() rgb {
	l := math.Cbrt(0.4122214708*c[0] + 0.5363325363*c[1] + 0.0514459929*c[2])
	m := math.Cbrt(0.2119034982*c[0] + 0.6806995451*c[1] + 0.1073969566*c[2])
	s := math.Cbrt(0.0883024619*c[0] + 0.2817188376*c[1] + 0.6299787005*c[2])
	return rgb{
		100 * (0.2104542553*l + 0.7936177850*m - 0.0040720468*s),
		100 * (1.9779984951*l - 2.4285922050*m + 0.4505937099*s),
		100 * (0.0259040371*l + 0.7827717662*m - 0.8086757660*s),
	}
}

func distance(a, b rgb) float64 {
	x, y := a.oklab(), b.oklab()
	return math.Sqrt((x[0]-y[0])*(x[0]-y[0]) + (x[1]-y[1])*(x[1]-y[1]) + (x[2]-y[2])*(x[2]-y[2]))
}

// palettes reads the two schemes from the style sheet.
func palettes(t *testing.T) map[string]map[string]rgb {
	t.Helper()
	light, dark, ok := strings.Cut(coloursCSS, "@media")
	if !ok {
		t.Fatal("no dark scheme")
	}
	schemes := map[string]map[string]rgb{}
	for name, css := range map[string]string{"light": light, "dark": dark} {
		schemes[name] = map[string]rgb{}
		for _, m := range regexp.MustCompile(`--([a-z-]+):(#[0-9a-f]{6})`).FindAllStringSubmatch(css, -1) {
			schemes[name][m[1]] = parseColour(t, m[2])
		}
	}
	if len(schemes["light"]) < 19 || len(schemes["light"]) != len(schemes["dark"]) {
		t.Fatalf("%d colours in the light scheme, %d in the dark", len(schemes["light"]), len(schemes["dark"]))
	}
	return schemes
}

func TestPaletteForColourBlindReaders(t *testing.T) {
	const least = 10.0 // just noticeable is about 2
	together := [][]string{
		{"run", "run-strong", "suspend", "checkpoint", "kill", "wait"},
		{"wait", "kill", "suspend", "checkpoint", "adaptive", "cost"},
	}
	for scheme, palette := range palettes(t) {
		for vision, matrix := range visions {
			for _, group := range together {
				for i, a := range group {
					for _, b := range group[i+1:] {
						if d := distance(palette[a].seen(matrix), palette[b].seen(matrix)); d < least {
							t.Errorf("%s, %s: %s and %s are %.1f apart, want %.0f", scheme, vision, a, b, d, least)
						}
					}
				}
			}
		}
	}
}

func TestPaletteContrast(t *testing.T) {
	for scheme, p := range palettes(t) {
		for _, c := range []struct {
			text, ground string
			least        float64
		}{
			{"ink", "paper", 7}, {"ink", "wash", 7}, {"muted", "paper", 4.5}, {"muted", "wash", 4.5},
			{"good", "paper", 4.5}, {"caution", "paper", 4.5}, {"bad", "paper", 4.5},
			{"on-run", "run", 4.5}, {"on-strong", "run-strong", 4.5}, {"on-suspend", "suspend", 4.5},
			{"run", "paper", 3}, {"kill", "paper", 3}, {"checkpoint", "paper", 3}, {"adaptive", "paper", 3}, {"cost", "paper", 3},
			{"wait", "paper", 2.8}, {"suspend", "paper", 2},
		} {
			if got := contrast(p[c.text], p[c.ground]); got < c.least {
				t.Errorf("%s: %s on %s has contrast %.2f, want %.1f", scheme, c.text, c.ground, got, c.least)
			}
		}
	}
}

func TestStylesAreSteady(t *testing.T) {
	s := newStyles()
	first, second := s.of("a"), s.of("b")
	if first == second || s.of("a") != first {
		t.Errorf("a: %+v then %+v, b: %+v", first, s.of("a"), second)
	}
	for name, st := range named {
		if !strings.Contains(coloursCSS, "."+st.class+"{") || s.of(name) != st {
			t.Errorf("%s has the style %+v", name, s.of(name))
		}
	}
	for n := range otherClasses {
		if !strings.Contains(coloursCSS, ".c-"+strconv.Itoa(n+1)+"{") {
			t.Errorf("no class c-%d", n+1)
		}
	}
}
