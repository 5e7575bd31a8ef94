// Package trial conducts an experiment: what is asked for (Options), what a reader must
// know of it (Circumstances), its parts one after the other, its entries once in every
// repeat in an order that the seed tells (Rounds), and the publication of its results as
// text, Markdown, JSON and a page. A report can be made again from the JSON.
package trial
