from hypothesis import settings

# Wall time on a busy machine says nothing about correctness.
settings.register_profile("metrics", deadline=None)
settings.load_profile("metrics")
