package examples_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// TestHelpSaysWhatFor: -h is no mistake, and says in a sentence what the
// program does; a flag that is not there is one.
func TestHelpSaysWhatFor(t *testing.T) {
	for name, about := range map[string]string{
		"customscorer": "Shows what a scoring rule of one's own adds to the cost of each replica, and which is picked.\n",
		"embed":        "Serves a team's own page and login, with the pipeline under /v1/ in front of one simulated replica.\n",
		"policylab":    "Compares routing rules on a trace, in simulation, and prints a line of figures per rule.\n",
		"replica":      "Serves one simulated vLLM replica: its routes, its times and its failures, without a GPU.\n",
		"tokens":       "Shows what a model folder makes of texts and conversations. The standard input is JSON lines, such as\n",
		"usagereport":  "Sums the usage records of a gateway by tenant and model, and holds them against the quota store.\n",
	} {
		t.Run(name, func(t *testing.T) {
			bin := build(t, name)
			out, err := exec.Command(bin, "-h").CombinedOutput()
			if err != nil {
				t.Errorf("-h ended with %v, want status 0", err)
			}
			usage, rest, _ := strings.Cut(string(out), "\n")
			if !strings.HasPrefix(usage, "Usage of "+name+": "+name) || !strings.HasPrefix(rest, about) {
				t.Errorf("-h printed\n%s", out)
			}
			out, err = exec.Command(bin, "-nonsense").CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 2 {
				t.Errorf("-nonsense ended with %v, want status 2", err)
			}
			if text := string(out); !strings.HasPrefix(text, "flag provided but not defined: -nonsense\nUsage of "+name) || strings.Contains(text, "wrong usage") {
				t.Errorf("-nonsense printed\n%s", text)
			}
		})
	}
}
