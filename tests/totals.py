"""totals.py -- counts checks in a Python test and prints them in Check's form, so that all tests add up to one line."""
import sys
import traceback


class Totals:
    def __init__(self):
        self.checks = self.failures = self.errors = 0

    def check(self, holds, text):
        """One check; `text` says what was found where it does not hold."""
        self.checks += 1
        if not holds:
            self.failures += 1
            print("failed:", text, flush=True)

    def run(self, function, *args):
        """Runs a function full of checks; an exception is an error and does not stop the rest."""
        try:
            function(self, *args)
        except Exception:
            self.checks += 1
            self.errors += 1
            print(f"error in {function.__name__}{args}:", flush=True)
            traceback.print_exc(file=sys.stdout)

    def finish(self):
        good = self.checks - self.failures - self.errors
        share = 100 * good // self.checks if self.checks else 0
        print(f"{share}%: Checks: {self.checks}, Failures: {self.failures}, Errors: {self.errors}", flush=True)
        sys.exit(0 if self.checks and good == self.checks else 1)
