// Package view shows spreads and aims in the cells of tables, in charts and on pages.
package view
