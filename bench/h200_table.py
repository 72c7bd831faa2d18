"""h200_table.py H200.JSON -- the tables of docs/performance.md from what h200.py measured, and the same as short JSON.

In: OUT/h200.json of a whole run.  Out: a table in Markdown on standard output: a line a kernel, for each shape our us by graph replays,
Triton's time over ours, and of the copy's bandwidth where more than 100 MB move; with --json, one object with a line a row instead.
"""
import argparse
import json
import sys


def best(row, who):
    return row[who].get("turn", row[who]["us"])[0]


def short(row):
    """What is kept of a row: [median, 10th, 90th percentile] us, and the graph's."""
    kept = {"kernel": row["kernel"], "shape": row["shape"], "bytes": row["bytes"], "ours": row["ours"].get("turn", row["ours"]["us"]),
            "variant": row["ours"]["variant"], "GBs": row["GBs"], "of_copy": row["of_copy"], "largest": row["largest"]}
    if "of_same_copy" in row:
        kept["of_same_copy"] = row["of_same_copy"]
    for who in ("triton", "eager", "compile"):
        if "us" in row.get(who, {}):
            kept[who] = row[who].get("turn", row[who]["us"])
    for what in ("config", "first"):
        if what in row.get("triton", {}):
            kept[what] = row["triton"][what]
    if "graph" in row:
        kept["graph"] = row["graph"]
    if "apart" in row:
        kept["apart"] = row["apart"]
    return {**kept, "agree": row.get("agree")}


def cell(row):
    graph = row.get("graph", {})
    if "triton" in graph:
        ours, ratio = graph["ours"][0], graph["triton"][0] / graph["ours"][0]
    else:
        ours, ratio = best(row, "ours"), best(row, "triton") / best(row, "ours") if "us" in row.get("triton", {}) else None
    of_copy = f", {100 * graph.get('of_copy', row['of_copy']):.0f} %" if row["bytes"] > 1e8 else ""
    return f"{row['shape'][0]} x {row['shape'][1]}: {ours:g}" + (f" ({ratio:.2f}{of_copy})" if ratio else "")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("report", help="h200.json, as bench/h200.py writes it")
    p.add_argument("--json", action="store_true", help="the rows without what the table does not need, as docs/ has them; else the table")
    o = p.parse_args()
    try:
        report = json.load(open(o.report))
    except (OSError, ValueError) as e:
        sys.exit(f"h200_table.py: {o.report}: {e}")
    if o.json:
        head = {k: report.get(k) for k in ("date", "versions", "copy_GBs", "nothing_us", "copies_us", "host_ns", "verdicts", "apart", "wrong", "failed", "left_out")}
        rows = ",\n".join(json.dumps(short(r), separators=(",", ":")) for r in report["rows"] if "us" in r.get("ours", {}))
        print(json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n' + rows + "\n]}")
        return
    kernels = {}
    for row in report["rows"]:
        kernels.setdefault(row["kernel"], []).append(cell(row))
    print("| kernel | M x N: our us by graph replays (Triton's time over ours, of the copy's bandwidth above 100 MB) |\n|---|---|")
    for name, cells in kernels.items():
        print(f"| {name} | {'; '.join(cells)} |")


if __name__ == "__main__":
    main()
