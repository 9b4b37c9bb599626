"""A leaderboard from Python.

Run a small benchmark, and see who may be the best.

Four methods share one network and differ in their uncertainty alone, so accuracy is the same for all. Three
seeds and six epochs keep this page quick; a real comparison has ten seeds of the whole recipe.
"""

# %%
import matplotlib.pyplot as plt

import volta

run = volta.benchmark(
    "digits",
    ["softmax", "energy", "knn", "mahalanobis"],
    seeds=3,
    max_epochs=6,
    reference="best",
    executor="local",
    progress=False,
)
board = run.leaderboard()
for row in board.where(metric="auroc", set="near:"):
    group = "may be the best" if row["in_confidence_set"] else "worse than the best"
    print(f"{row['rank']:.0f}. {row['method']:12} near-OOD AUROC {row['mean']:.3f}, {group}")

# %%
summary = run.summary().where(metric="auroc")
sets = ("near:", "far:")
figure, axes = plt.subplots(figsize=(5.6, 2.6))
for place, eval_set in enumerate(sets):
    rows = list(summary.where(set=eval_set))
    for number, row in enumerate(rows):
        axes.errorbar(
            row["mean"],
            number + 0.16 * place,
            xerr=row["std"],
            fmt="o",
            color=f"C{place}",
            label=f"{eval_set[:-1]} OOD" if number == 0 else None,
        )
axes.set(
    yticks=range(len(rows)),
    yticklabels=[row["method"] for row in rows],
    xlabel="AUROC, mean and deviation over 3 seeds",
)
axes.legend(loc="upper left")
plt.show()
