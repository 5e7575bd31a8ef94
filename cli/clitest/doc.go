// Package clitest is what tests of Headrace's programs have in common.
package clitest
