from hypothesis import settings

# Wall time on a busy machine says nothing about correctness.
settings.register_profile("decisions", deadline=None, max_examples=60)
settings.load_profile("decisions")
