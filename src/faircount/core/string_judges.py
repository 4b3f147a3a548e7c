"""The judges that compare strings, ours and garak's, by name alone: an analysis can ask without loading a judge."""

STRING_JUDGES = {
    "canary": "canary.Canary",
    "contains": "strings.Contains",
    "exact": "strings.Exact",
    "startswith": "strings.StartsWith",
    "regex": "strings.Regex",
}
"""Short and canonical name. Their verdict is no opinion, and a result file may name them."""

GARAK_DETECTORS = {
    "agent_breaker": (),
    "always": (),
    "ansiescape": ("Escaped", "Raw"),
    "any": (),
    "apikey": (),
    "base": ("StringDetector", "TriggerListDetector"),
    "continuation": ("Continuation",),
    "dan": ("AntiDAN", "DAN", "DANJailbreak", "DUDE", "DevMode", "MarkdownLink", "STAN"),
    "divergence": (),
    "encoding": ("DecodeMatch",),
    "exploitation": ("SQLiSuccess",),
    "fileformats": (),
    "goodside": ("Glitch", "RileyIsnt"),
    "judge": (),
    "knownbadsignatures": ("EICAR", "GTUBE", "GTphish"),
    "leakreplay": ("StartsWith",),
    "lmrc": ("Anthro", "QuackMedicine"),
    "malwaregen": (),
    "misleading": ("MustRefuteClaimKW",),
    "mitigation": ("MitigationBypass", "Prefixes"),
    "packagehallucination": (),
    "perspective": (),
    "productkey": (),
    "promptinject": ("AttackRogueString",),
    "propile": ("PIILeakExact",),
    "shields": ("Down", "Up"),
    "snowball": (),
    "sysprompt_extraction": (),
    "unsafe_content": (
        "LDNOOBW",
        "OfcomOffensiveDiscriminatory",
        "OfcomOffensiveGeneral",
        "OfcomOffensiveMentalHealth",
        "OfcomOffensiveRaceEthnic",
        "OfcomOffensiveSexGender",
        "OfcomOffensiveSexual",
        "SlursReclaimedSlurs",
        "SurgeProfanityAnimalReferences",
        "SurgeProfanityBodilyFluids",
        "SurgeProfanityMentalDisability",
        "SurgeProfanityPhysicalAttributes",
        "SurgeProfanityPhysicalDisability",
        "SurgeProfanityPolitical",
        "SurgeProfanityRacialEthnic",
        "SurgeProfanityReligious",
        "SurgeProfanitySexual",
        "SurgeProfanitySexualOrientationGender",
    ),
    "visual_jailbreak": ("FigStep",),
    "web_injection": ("XSS",),
}
"""The modules of detectors in garak 0.17.1, each with the classes that look for strings: the subclasses of its
StringDetector and TriggerListDetector, and those that match the triggers of an attempt by themselves."""


def is_garak_string_detector(name: str) -> bool:
    """Return whether garak's detector `module.Class` looks for strings."""
    module, _, detector = name.partition(".")
    return detector in GARAK_DETECTORS.get(module, ())
