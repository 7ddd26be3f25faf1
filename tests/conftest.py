from hypothesis import Phase, settings

settings.register_profile("steady", deadline=None, max_examples=40, derandomize=True)
settings.register_profile("quick look", settings.get_profile("steady"), phases=[Phase.explicit, Phase.generate])
settings.load_profile("steady")
