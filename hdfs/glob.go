package hdfs

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// glob is Hadoop's pattern for one name in a directory ("FileSystem.globStatus" in its
// API documentation): ? one character, * any, [ab], [a-z], [^a] or [!a] one of a set,
// {ab,c*} one of several, \c the character c.
type glob struct {
	literal string // what it stands for, where it is no pattern
	names   *names // that it matches; nil where it is no pattern
}

const (
	// MaxPath is how many bytes a path or pattern may have. HDFS takes none of more than 8000 characters, and each has three bytes at most.
	MaxPath = 3 * 8000
	// maxPatterns and maxExpanded, in bytes, bound what a pattern with slashes in braces stands for, and what is between it and that.
	maxPatterns = 1000
	maxExpanded = 4 << 20
	// maxSteps is how much work one name may be: tenths of a millisecond. A regexp of so long a pattern may need hundreds of milliseconds.
	maxSteps = 20_000
)

var (
	errLong    = fmt.Errorf("it is longer than a path can be, %d bytes", MaxPath)
	errPattern = errors.New("the pattern cannot be used")
	errSteps   = fmt.Errorf("%w: comparing names with it takes too long; give several that are simpler", errPattern)
)

func badPattern(format string, args ...any) error {
	return fmt.Errorf("%w: %w; put \\ before a character that stands for itself", errPattern, fmt.Errorf(format, args...))
}

// IsPattern reports whether a path stands for what it matches and not for itself.
func IsPattern(path string) bool { return strings.ContainsAny(path, `*?[{\`) }

// expand returns patterns without slashes in braces that together are the same as one
// with them.
func expand(pattern string) ([]string, error) {
	todo, room := []string{pattern}, maxExpanded
	var done []string
	for len(todo) > 0 {
		p := todo[0]
		before, alternatives, after, err := slashedBraces(p)
		if err != nil {
			return nil, err
		}
		if todo = todo[1:]; alternatives == nil {
			done = append(done, p)
			continue
		}
		all := make([]string, 0, len(alternatives)+len(todo))
		for _, a := range alternatives {
			room -= len(before) + len(a) + len(after)
			if len(todo)+len(done)+len(alternatives) > maxPatterns || room < 0 {
				return nil, fmt.Errorf("%w: it stands for more than %d patterns, or %d bytes of them; give several", errPattern, maxPatterns, maxExpanded)
			}
			all = append(all, before+a+after)
		}
		todo = append(all, todo...)
	}
	return done, nil
}

// slashedBraces takes apart a pattern at the first outer braces with a slash inside. As Hadoop does it, what is in them loses a \ before each character.
func slashedBraces(p string) (before string, alternatives []string, after string, err error) {
	depth, open, part, slash := 0, 0, 0, false
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			if i++; i == len(p) {
				return "", nil, "", badPattern("it ends with \\")
			}
		case '{':
			if depth++; depth == 1 {
				open, part, slash, alternatives = i, i+1, false, nil
			}
		case '/':
			slash = slash || depth > 0
		case ',':
			if depth == 1 {
				alternatives, part = append(alternatives, unescaped(p[part:i])), i+1
			}
		case '}':
			if depth == 0 {
				continue
			}
			if depth--; depth == 0 && slash {
				return p[:open], append(alternatives, unescaped(p[part:i])), p[i+1:], nil
			}
		}
	}
	if depth > 0 {
		return "", nil, "", badPattern("there is no } for a {")
	}
	return "", nil, "", nil
}

// unescaped takes away a \ before each character.
func unescaped(p string) string {
	if strings.IndexByte(p, '\\') < 0 {
		return p
	}
	b := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		if p[i] == '\\' {
			i++ // there is one: it was looked for
		}
		b = append(b, p[i])
	}
	return string(b)
}

// newGlob reads the pattern of one name.
func newGlob(pattern string) (glob, error) {
	var literal, names strings.Builder
	wild, depth := false, 0
	for at := 0; at < len(pattern); {
		n := 1
		switch c := pattern[at]; {
		case c == '\\' && at+1 == len(pattern):
			return glob{}, badPattern("it ends with \\")
		case c == '\\':
			n = 2
			literal.WriteByte(pattern[at+1])
			names.WriteString(quoted(pattern[at+1]))
		case c == '*':
			wild = true
			names.WriteString(".*")
		case c == '?':
			wild = true
			names.WriteByte('.')
		case c == '{':
			wild = true
			depth++
			names.WriteString("(?:")
		case c == ',' && depth > 0:
			names.WriteByte('|')
		case c == '}' && depth > 0:
			depth--
			names.WriteByte(')')
		case c == '[':
			wild = true
			set, err := readSet(pattern[at:])
			if err != nil {
				return glob{}, err
			}
			n = len(set.glob)
			names.WriteString(set.regexp)
		default:
			literal.WriteByte(c)
			names.WriteString(quoted(c))
		}
		at += n
	}
	if depth > 0 {
		return glob{}, badPattern("there is no } for a {")
	}
	if !wild {
		return glob{literal: literal.String()}, nil
	}
	is, err := compile(names.String())
	if err != nil {
		return glob{}, badPattern("%.200v", err)
	}
	return glob{names: is}, nil
}

// names are those that an expression matches. They are for one goroutine at a time.
type names struct {
	prog      *syntax.Prog
	now, next places
}

// places are those in an expression where a name may have come to, each once.
type places struct{ list, index []uint32 }

func (s *places) add(place uint32) {
	if i := s.index[place]; int(i) < len(s.list) && s.list[i] == place {
		return
	}
	s.index[place] = uint32(len(s.list))
	s.list = append(s.list, place)
}

func compile(expression string) (*names, error) {
	re, err := syntax.Parse(expression, syntax.Perl|syntax.DotNL)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, err
	}
	n := &names{prog: prog}
	n.now.index, n.next.index = make([]uint32, len(prog.Inst)), make([]uint32, len(prog.Inst))
	return n, nil
}

// have reports whether a name is one of them. It fails with errSteps.
func (n *names) have(name string) (is bool, err error) {
	n.now.list = n.now.list[:0]
	n.now.add(uint32(n.prog.Start))
	steps := 0
	for len(n.now.list) > 0 {
		r, size := utf8.DecodeRuneInString(name)
		n.next.list = n.next.list[:0]
		for i := 0; i < len(n.now.list); i++ { // it grows
			if steps++; steps > maxSteps {
				return false, errSteps
			}
			switch in := &n.prog.Inst[n.now.list[i]]; in.Op {
			case syntax.InstMatch:
				if size == 0 {
					return true, nil
				}
			case syntax.InstAlt, syntax.InstAltMatch:
				n.now.add(in.Out)
				n.now.add(in.Arg)
			case syntax.InstCapture, syntax.InstNop:
				n.now.add(in.Out)
			default:
				if size > 0 && in.MatchRune(r) {
					n.next.add(in.Out)
				}
			}
		}
		name = name[size:]
		n.now, n.next = n.next, n.now
	}
	return false, nil
}

// quoted returns the expression of a byte that stands for itself, or is one of several
// of a character.
func quoted(c byte) string { return regexp.QuoteMeta(string([]byte{c})) }

type set struct{ glob, regexp string }

// readSet reads the [set] that p begins with. A ] that comes first is one of the set.
func readSet(p string) (set, error) {
	var re strings.Builder
	re.WriteByte('[')
	first := 1
	for i := 1; i < len(p); i++ {
		switch c := p[i]; {
		case c == ']' && i > first:
			re.WriteByte(']')
			return set{p[:i+1], re.String()}, nil
		case i == 1 && (c == '^' || c == '!'):
			first = 2
			re.WriteByte('^')
		case c == '[':
			return set{}, badPattern("there is no ] for a [")
		case c == '-':
			re.WriteByte('-')
		case c == '\\' && i+1 < len(p):
			i++
			c = p[i]
			fallthrough
		default:
			if strings.IndexByte(`^-]\[`, c) >= 0 {
				re.WriteByte('\\')
			}
			re.WriteByte(c)
		}
	}
	return set{}, badPattern("there is no ] for a [")
}
