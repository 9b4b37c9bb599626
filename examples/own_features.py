"""The code of docs/tutorials/own-features.md, made by tools/examples.py."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from volta import VoltaClassifier

rows, labels = load_breast_cancer(return_X_y=True)
known, new, known_labels, new_labels = train_test_split(rows, labels, test_size=150, random_state=0)
classifier = VoltaClassifier().fit(known, known_labels)
print(f"{(classifier.predict(new) == new_labels).mean():.3f} of {len(new)} new rows right")

record = classifier.fit_record_
print({part: record.n_rows(part) for part in ("train", "val", "cal")})

probabilities = classifier.predict_proba(new)  # (150, 2), calibrated on rows that did not train
uncertainty = classifier.uncertainty(new)  # (150,), higher where less certain
sets = classifier.predict_set(new, alpha=0.1)  # (150, 2), True where the class may be the true one
covered = sets[range(len(new)), new_labels].mean()
print(f"the true class is in {covered:.2f} of the sets; promised: 0.90 on average over draws of calibration rows")
print(f"mean set size {sets.sum(axis=1).mean():.2f}")

decisions = classifier.decide(new)
print(decisions[0])
for decision in decisions[:150]:
    if decision.action != "answer":
        print(decision.action, decision.label, decision.reason)
        break

classifier.save("model.safetensors")  # one sealed file, nothing pickled
again = VoltaClassifier.load("model.safetensors")
assert (again.predict_proba(new) == probabilities).all()

plain = VoltaClassifier("linear").fit(known, known_labels)
print(f"{(plain.predict(new) == new_labels).mean():.3f}")
