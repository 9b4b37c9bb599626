"""Methods as scikit-learn estimators."""
