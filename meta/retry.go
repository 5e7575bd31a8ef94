package meta

import "errors"

// Answers are kept for clients that ask again, because the answer got lost: HDFS's
// RetryCache, but for all operations that change something, and in the state, so that it
// outlives whoever answered. Only successes are kept: what has failed has changed nothing.

// answer is one that was given.
type answer struct{ Result Result }

func (a *answer) code(c *coder) { oneOf(c, results, &a.Result) }

// answerAt says when an answer was given, in the order of answers.
type answerAt struct {
	Time int64
	Key  []byte
}

func (a *answerAt) code(c *coder) { c.signed(&a.Time); c.bytes(&a.Key) }

func answerKey(m Command) []byte {
	return append(key(keyAnswer, uint64(m.Call)), m.Client...)
}

// answered returns the answer that a call was given before.
func answered(r Reader, m Command) (Result, bool) {
	if m.Client == "" {
		return nil, false
	}
	b := r.Get(answerKey(m))
	if b == nil {
		return nil, false
	}
	var a answer
	if err := decode(recordVersion, b, &a); err != nil {
		panic("meta: an answer cannot be read: " + err.Error())
	}
	return a.Result, true
}

// forgetAtOnce is how many old answers a command removes at most: more than one comes
// with it.
const forgetAtOnce = 4

// remember keeps an answer, and forgets old ones: those past their time, and those above
// the number that is kept.
func (s *state) remember(m Command, r Result) {
	if f, ok := r.(*Flag); m.Client == "" || ok && !bool(*f) {
		return // false is as good as a failure: asking again is a new try, as in HDFS
	}
	s.store(answerKey(m), &answer{r})
	n := s.take(&s.counters().Answer)
	s.store(key(keyAnswered, n), &answerAt{m.Time, answerKey(m)})
	forgotten := 0
	for k, v := range s.v.Scan(key(keyAnswered), key(keyAnswered, n)) {
		var a answerAt
		if err := decode(recordVersion, v, &a); err != nil {
			panic("meta: an answer's time cannot be read: " + err.Error())
		}
		tooMany := n-numberAt(k, 0) >= s.config.MaxAnswers
		if forgotten == forgetAtOnce || m.Time-a.Time <= s.config.AnswerTime && !tooMany {
			return
		}
		s.v.Delete(a.Key)
		s.v.Delete(k)
		forgotten++
	}
}

// outcome is what Apply returned.
type outcome struct {
	Result Result
	Err    *Error
}

func (o *outcome) code(c *coder) {
	optional(c, &o.Err, func(c *coder, e *Error) { e.code(c) })
	oneOf(c, results, &o.Result)
}

const answerVersion = 1

// EncodeAnswer returns what Apply has returned as bytes, for those who asked elsewhere. err is
// nil or an *Error.
func EncodeAnswer(r Result, err error) []byte {
	o := outcome{Result: r}
	if err != nil {
		errors.As(err, &o.Err)
	}
	return encode(answerVersion, &o)
}

// DecodeAnswer returns what EncodeAnswer was given.
func DecodeAnswer(b []byte) (Result, error) {
	var o outcome
	if err := decode(answerVersion, b, &o); err != nil {
		return nil, err
	}
	if o.Err != nil {
		return nil, o.Err
	}
	return o.Result, nil
}
