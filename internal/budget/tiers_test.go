package budget

import (
	"errors"
	"strings"
	"testing"
)

func TestTiers(t *testing.T) {
	b := Tiers{What: "things", Each: 10, Owner: 15, All: 20}
	take := func(owner string, had, n int64, over string) {
		t.Helper()
		err := b.Take(owner, had, n)
		if over == "" && err != nil || over != "" && (!errors.Is(err, ErrOver) || !strings.Contains(err.Error(), over)) {
			t.Errorf("%s takes %d more than %d: %v, want %q", owner, n, had, err, over)
		}
	}
	take("anna", 0, 11, "it would have 11")
	take("anna", 0, 10, "")
	take("anna", 10, 1, "it would have 11")
	take("anna", 0, 6, "its owner anna would have 16")
	take("anna", 0, 5, "")
	take("bob", 0, 6, "all together would have 21")
	take("bob", 0, 5, "")
	b.Give("anna", 10)
	take("bob", 5, 5, "")
	b.Give("anna", 5)
	b.Give("bob", 10)
	if all, owners := b.Taken(); all != 0 || owners != 0 {
		t.Errorf("%d of %d owners are left", all, owners)
	}
	take("carl", 0, 10, "")
}
