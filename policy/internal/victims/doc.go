// Package victims chooses which tasks leave a node for a more urgent one, and how: by the
// named policies, victims in order until there is room; by Cost, the cheapest set of
// acts. What may be done to a task is listed in one place, Chooser.ActsOn.
package victims
