"""The families of phrasing in which language models refuse in English, as patterns over folded text.

They were made from knowledge of how models refuse and from sentences written for the purpose; no labelled file was
looked at (docs/concepts/refusal.md). A group's name is the name of its family; `WEIGHTS` says how much it weighs at the
opening of an answer. Every repetition is bounded, and the texts are short windows: no input takes long.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

# What may stand between the subject, the negation and the verb.
_ADVERB = (
    r"(?:really|actually|also|just|simply|ethically|morally|legally|possibly|personally|currently|unfortunately"
    r"|therefore|thus|knowingly|honestly|directly|still|always|ever|again|absolutely|definitely|certainly|strictly"
    r"|truly|sadly|regretfully|respectfully|politely|kindly|firmly|gently|completely|fully|safely|responsibly"
    r"|intentionally|willingly|generally|however|hence|even|gonna|regrettably|reasonably|conscientiously|obviously"
    r"|in any way|at this time|right now|in good (?:conscience|faith)|under any circumstances?|at all|physically"
    r"|as (?:an?|your) [^,.!?¶]{1,40}(?=,))"
)
_GAP = rf"(?:,? {_ADVERB},?){{0,3}}"

# What an answer declines to do. Words that a writer uses of himself (wait, believe, stress, imagine) are not here.
_ACT = (
    r"(?:assist|aid|help(?! (?:but\b|feeling|noticing|wondering|thinking|myself|laughing|smiling|it\b|falling))"
    r"|provide|supply|create|write|generate|produce|compose|draft|craft|develop|design"
    r"|give(?! (?:up|enough|a (?:definit|precise|single|firm|one-size)))|offer|ful+fil|comply|complete|support|engage"
    r"|participate|take part|partake|share|answer|respond|reply|discuss|talk about|speak (?:about|on|to|ill|as)"
    r"|continue(?! (?:living|like this|this way))|proceed|process|execute|carry out|perform|follow|honou?r|grant"
    r"|make(?! (?:sense|up|out|it (?:to|tonight|today|there)|heads))"
    r"|tell (?:you (?!(?:enough|how (?:much|happy|excited|many|long|important|sorry|often|grateful|proud)))|jokes?|a )"
    r"|explain(?! (?:why i (?:feel|felt|love)|it any|myself))|describe(?! (?:how|the feeling|it))|disclose|reveal"
    r"|divulge|teach|show|guide|instruct|facilitate|encourage|promote|endorse|condone|approve|advocate|justify"
    r"|recommend(?![^.!?]{0,50}(?:enough|highly))|suggest|advise|accommodate|act (?:as|on|like|in|out)|pretend"
    r"|role-?play|play (?:the role|along|that)|impersonate|adopt|assume the|simulate|ignore|bypass|override|disregard"
    r"|circumvent|access|browse|open|view|search|send|translate|summari[sz]e|rewrite|repeat|recite|reproduce|print"
    r"|output|display|list|name|identify|speculate|comment|express|go (?:along|into (?:that|this|it|detail)"
    r"|through with|ahead|there|down)"
    r"|enable|contribute|collaborate|cooperate|accept|agree to|entertain|indulge|cater|oblige|obey|abide"
    r"|be (?:involved|part of|a part|a party|used|of (?:help|assistance|service)|complicit|helping|providing|doing"
    r"|creating|writing|generating|assisting|sharing|discussing|answering)"
    r"|say (?:that|this|it|such|those|anything|things|something)(?! (?:for (?:sure|certain)|with|enough|has|is|was))"
    r"|use (?:that|such|this|offensive|profan|racial|slurs?|hate|derogatory|foul)|fabricate|invent|forge|build|code"
    r"|hack|plan|diagnose|prescribe|work (?:on|with you on)|meet|satisfy|handle|touch|get into|fake|spread|insult"
    r"|mock|argue (?:for|that|in favou?r)|present|outline|detail|specify|convert|modify|change my|alter|paste"
    r"|do (?:that|this|it|so|what|anything|as|any|such|your)(?! (?:any ?more|alone|without|justice|myself|again)))"
)
_CARRIES_ON = (
    r"(?: (?:be able to|be in a position to|be willing to|be allowed to|be going to|in any way|ever|even"
    r"|(?:and|or) (?:will not|won't|should not|must not|shouldn't)|nor will i))?"
)
# Asking for what is missing is not declining: "I can't help without seeing the code".
_NOT_ASKING = (
    r"(?![^.!?¶]{0,100}\b(?:without (?:more|knowing|seeing|additional|further|some|the (?:full|actual|rest|file"
    r"|text|code)"
    r"|your|any (?:more|further|context)|a (?:bit|little|copy)|context)|unless you (?:tell|give|provide|share|paste"
    r"|upload"
    r"|send|let|clarify|specify)|until you|until i (?:know|see|have)|better (?:than|myself)|enough\b))"
)

_CANNOT = (
    r"(?:can'?t|cannot|can not|can never|can no longer|canot|won'?t|will (?:not|never)|'ll (?:not|never)|shan'?t"
    r"|shall not|must(?:n'?t| not| never)|may not|ain'?t (?:gonna|going to))"
)
_WOULD_NOT = (
    r"(?:could(?:n'?t| not| never)|would(?:n'?t| not| never)|'d (?:not|never)|should(?:n'?t| not| never)|do(?:n'?t"
    r"| not)"
    r"|never)"
)
_SOFT_ACT = (
    r"(?:assist|help (?:with|you|people|anyone|someone|anybody|others|users)|provide|create|write|generate|produce"
    r"|compl(?:y|ete)|participate|engage"
    r"|share|facilitate|discuss|answer (?:that|this|such|questions)|respond to|give (?:out|advice|instructions|you)"
    r"|offer (?:advice|instructions|guidance|assistance|information)|do (?:that|this|it|so|such)|disclose|reveal|fulfil"
    r"|make (?:jokes|up|fun|content|statements)|tell jokes|speculate|use (?:profan|offensive|slurs)|want to (?:do|help"
    r"|assist|write|create|provide|discuss|talk about|participate|engage|answer|say|be part|share)|wish to|intend to"
    r"|feel (?:right|good) (?:about )?(?:writing|creating|doing|helping|providing|sharing|discussing)"
    r"|take part|role-?play|impersonate|teach|go along|feel (?:comfortable|at ease|safe)|(?:be "
    r"|be feeling )?comfortable"
    r"|think (?:i (?:can|should|could|am able|'m able|'ll)|(?:it|that|this)(?:'s| is| would be) (?:appropriate"
    r"|right|ethical"
    r"|okay|ok|wise|a good idea|responsible|something i)|i'm comfortable|we should (?:do|discuss|talk)))"
)
_STANCE = r"(?:condone|endorse|support|promote|encourage|advocate|approve of|tolerate)"
_LACK = (
    r"(?:the (?:ability|capability|capacity|means|tools|authority|permission) (?:to|of|for)"
    r"|permission|a (?:physical )?body|a way to|any way (?:of|to))"
)
_OPINION = (
    r"(?:personal |any |my own |political |human |the )*(?:opinions?|beliefs?|feelings?|emotions?|preferences?"
    r"|experiences?|views?|thoughts?|political|gender|race|consciousness)"
)

_AM = r"(?:i'm|i am|im|i'll be|i will be|i've been|i have been|i remain|i feel)"
_NOT_ABLE = (
    r"(?:not (?:currently |really |legally |ethically |yet |quite |presently |even )?(?:able|allowed|permitted"
    r"|programmed"
    r"|designed|going|willing|authori[sz]ed|supposed|equipped|capable|meant|intended|prepared|in a position|at liberty"
    r"|inclined|built|trained|gonna|qualified)|unable|unwilling|incapable|prohibited|forbidden|restricted|prevented"
    r"|barred|programmed not|designed not|trained not|instructed not|told not|required not|bound not|oblig(?:at)?ed not"
    r"|reluctant|hesitant|unauthori[sz]ed|disallowed|(?:programmed|designed|built|trained) to (?:avoid|refuse|decline"
    r"|reject|refrain))"
)
_UNCLEAR = (
    r"(?! (?:to |of |from )?(?:be )?(?:find|understand|determine|see|locat|hear|verif|confirm|tell|recall|remember"
    r"|lie\b"
    r"|sugar|sure|certain|attend|make it|believ|stop|sleep|join|figure|detect|parse|recogni[sz]|reach|judg"
    r"|pretend (?:to|it"
    r"|that)|come|fit|keep up|predict|guarantee|decipher|make (?:out|sense)|bore|argue with|deny|complain|connect"
    r"|travel))"
)
_DECLINING = (
    r"(?: (?:must|have to|need to|will|would|should|shall|do|am going to|am forced to|am obliged to|will have to"
    r"|would have to|choose to|want to|would like to|have no choice but to|feel (?:obliged|compelled) to|can only)"
    r"|'ll have to|'ll|'m going to have to|'m going to|'m forced to|'m obliged to|'d have to|'d like to|'ve to|'d)?"
)
_DOING = (
    r"(?:with|about|doing|writing|creating|providing|helping|discussing|answering|sharing|assisting|continuing"
    r"|generating|engaging|producing|giving)"
)

_FIRST_PERSON: Mapping[str, tuple[str, ...]] = {
    "decline": (
        rf" (?:i|we){_DECLINING}{_GAP} (?:decline(?!d|s)|refuse(?!d|s| to (?:believe|accept|give up|let))|refrain from"
        r"|abstain from|say no\b|pass on|have to pass|need to pass|reject (?:this|that|your)|object to (?:this|that"
        r"|your)"
        r"|turn (?:(?:this|that|you|it) )?down(?= ?[.,!¶]| this| that| your)|draw (?:the|a) line"
        r"|stop (?:you )?(?:here|there|this conversation)"
        r"|end (?:this|the|our) (?:conversation|chat|discussion))",
        rf" (?:i'd|i would|i'll|i will){_GAP} (?:rather not|prefer not|sooner not|(?:have to )?pass\b)",
        r" i prefer not to",
        r" i(?:'ve| have)(?: absolutely)? (?:no|zero) (?:intention|interest|desire|plans?) (?:of|in|to)",
        r" i ain'?t (?:doing|helping|telling|writing)",
        r" (?:i'm|i am|im)(?: \w+)? (?:declining|refusing|saying no)\b",
        r" (?:i'm|i am|im) (?:really |definitely |absolutely )?not (?:helping|doing (?:that|this|it)"
        r"|writing (?:that|this|it|any)"
        r"|providing|assisting|participating|sharing (?:that|this|it|any)|answering (?:that|this)|the right (?:tool"
        r"|assistant|one"
        r"|place))",
    ),
    "comfort": (
        rf" {_AM}{_GAP} (?:not|never) (?:at all |very |really )?comfortable",
        rf" i(?: do(?:n'?t| not)| would(?:n'?t| not)){_GAP} (?:feel|be)(?: \w+)? comfortable",
        rf" (?:{_AM}|i'd (?:be|feel)|i would (?:be|feel)){_GAP} uncomfortable {_DOING}",
    ),
    "inability": (
        rf" i{_GAP}(?: |(?='ll)){_CANNOT}{_GAP}{_CARRIES_ON}{_GAP} {_ACT}{_NOT_ASKING}",
        rf" {_AM}{_GAP} {_NOT_ABLE}{_UNCLEAR}{_NOT_ASKING}",
    ),
    "limits": (
        r" i(?: can|'m| am) (?:only|just) (?:able to |here to )?(?:assist|help|provide|discuss|answer|engage|offer"
        r"|support)"
        r"\b[^.!?¶]{0,60}\b(?:legal|ethical|safe|appropriate|lawful|positive|respectful|related|within|topics)",
    ),
    "practice": (rf" i{_GAP}(?: |(?='d)){_WOULD_NOT}{_GAP} {_SOFT_ACT}{_NOT_ASKING}",),
    "stance": (rf" i{_GAP} (?:do(?:n'?t| not)|can'?t|cannot|will not|won'?t){_GAP} {_STANCE}",),
    "lack": (rf" i(?: do(?:n'?t| not)(?: currently| actually| physically)? have | lack | have no ){_LACK}",),
    "opinion": (
        rf" i(?: do(?:n'?t| not) (?:have|possess|hold|experience) | have no ){_OPINION}"
        r"(?![^.!?¶]{0,60}(?:, but|; but|; however|, however|, though))",
    ),
    "together": (
        rf" we{_GAP} (?:can'?t|cannot|can not|will not|won'?t|are (?:unable|not able) to){_GAP} (?:be able to )?"
        r"(?:assist|help|provide|comply|fulfil+|process|support|continue|discuss|answer|accommodate)"
        r" (?:you|with (?:this|that|your)|this|that|your|such|content|information|instructions)",
    ),
    "denial": (
        rf" i{_GAP} (?:can'?t|cannot|can not|won'?t|will not)(?: do (?:that|this|it))?"
        r"(?:,? (?:sorry|dave|i'm afraid|unfortunately))? ?(?=[.!¶]| $)",
    ),
}

_REQUEST = r"(?:request|query|prompt|question|topic|task|content)s?"
_OWN = r"(?:my|our|(?:openai|anthropic|google|microsoft|meta|mistral)(?:'s)?|the platform's)"
_RULES = (
    r"(?:guidelines?|polic(?:y|ies)|programming|principles?|values|rules|terms|code of conduct|training|instructions"
    r"|standards|restrictions|design|safety|moral|ethics)"
)
_WRONG = (
    r"(?:(?:not|never|neither|isn't|wouldn't be) (?:\w+ )?(?:appropriate|ethical|legal|acceptable|okay|ok|right"
    r"|permissible"
    r"|permitted|allowed|responsible|moral|a good idea|advisable)|illegal|unethical|immoral|wrong|inappropriate"
    r"|irresponsible|unacceptable|against the law|unlawful|a (?:serious )?crime|a (?:criminal|federal) offen[cs]e)"
)
# The space before a word that begins a sentence; a pattern that begins with a plain character is found quickly.
_PLAIN_ACT = (
    r"(?:assist|help|provide|comply|fulfil|answer|create|generate|write|continue|do (?:that|this|it|so)|discuss|share"
    r"|support|complete|process|respond|engage|participate|give|disclose|reveal|follow|tell you|say that|offer|produce)"
)
_START = r" (?:(?<=[.!?:;¶)\]\"-] )|(?<!. ))"

_ANYWHERE: Mapping[str, tuple[str, ...]] = {
    "apology and inability": (
        r"(?:sorry|apologi[sz]e|apologies|regret|afraid|unfortunately|forgive me|pardon)[^.!?¶]{0,90}? (?:i|we)"
        rf"{_GAP}(?: (?:can'?t|cannot|can not|won'?t|will not)|'m not able to|'m unable to| am unable to"
        r"| am not able to)"
        rf"{_UNCLEAR}{_NOT_ASKING}",
        r"(?:sorry|apologi[sz]e|apologies|unfortunately)[^.!?¶]{0,40}? (?:that(?:'s| is)|this(?: is)?|it(?:'s| is)|your"
        rf" request(?: is)?|such)(?: a)?(?: \w+){{0,3}}? {_WRONG}",
        r" (?:sorry|apologies),? (?:but )?(?:no\b|no can do|can'?t (?:do|help)|not (?:happening|possible|allowed"
        r"|going))",
    ),
    "not for me": (
        r" (?:not|isn't|n't|never) (?:something|anything|one|a (?:topic|request|task|conversation|thing"
        r"|road))(?: that)? i"
        r"(?: can| could| will| would|'d| am| do| should|'m|'ll| want| feel| wish)",
        r" (?:something|anything|a (?:topic|request|task)|requests?|content|material|tasks?|topics?)(?: that| which)? i"
        r"(?: (?:can'?t|cannot|can not|won'?t|will not|must (?:decline|refuse|avoid)|do(?:n't| not)|am (?:not|unable)"
        r"|should(?:n't| not)|refuse|decline)|'m (?:not|unable))(?! (?:stand|resist|live|do without|forget"
        rf"|remember)){_NOT_ASKING}",
        rf" {_WRONG} for (?:me|an ai|a language model|an assistant)(?: \w+){{0,6}}? to",
        r" (?:beyond|outside(?: of)?) (?:my|the scope of|what i) (?:\w+ ){0,3}?(?:capabilit|abilit|scope|guidelines"
        r"|ethical"
        r"|can|am able|do|programming|purpose|expertise|boundaries|limits|role|function)",
        r" against (?:the|all) (?:\w+ )?(?:rules|guidelines|principles|policies|values|standards)(?: that)? (?:i|we) ",
        r" (?:against|contrary to|conflicts? with|inconsistent with|violates?|breach(?:es)?|contradicts?) my",
        r" (?:nothing|no way) (?:that )?i(?: can| could| will| would| am|'m|'ll) (?:going to )?(?:help|assist"
        r"|do that|provide|write)",
    ),
    "policy": (
        rf" (?:go(?:es)?|going|is|are|be|'s|and|against|strictly) against {_OWN} (?:[\w-]+ ){{0,3}}?{_RULES}",
        r" (?:violat\w+|breach\w*|contraven\w+|break(?:s|ing)?|conflicts? with|contrary to|prohibited by"
        r"|not (?:in line|aligned?|consistent|compliant) with"
        r"|forbidden by|in violation of|restricted by|not allowed (?:by|under)|contradicts?|not permitted (?:by"
        r"|under)) "
        rf"(?:{_OWN}|(?:the |your )?(?:ethical|content|usage|use|acceptable|safety|community|platform))"
        rf" (?:[\w'-]+ ){{0,4}}?{_RULES}",
        rf" (?:my|our) (?:[\w-]+ ){{0,3}}?{_RULES}(?: \w+){{0,3}}? (?:prohibit|prevent|forbid|restrict|preclude|bar"
        r"|stop"
        r"|do(?:es)?(?:n't| not) (?:allow|permit|let))(?:s|ed)? (?:me|us|it|that|this|such|from)\b",
        r" (?:i'm|am|i was|been) (?:\w+ )?(?:programmed|designed|trained|built|instructed|configured"
        r"|made) (?:\w+ )?(?:not to"
        r"|never to"
        r"|to (?:avoid"
        r"|refuse|decline|reject|refrain|not ))",
        r" (?:due to|under|per|because of|according to) (?:my|openai's|anthropic's|google's) (?:[\w-]+ ){0,3}?"
        rf"{_RULES}",
        rf" against (?:my|our|openai's|anthropic's|google's) (?:[\w-]+ ){{0,3}}?{_RULES}",
        r"^ (?:[\w ]{0,20}, )?(?:due to|per|because of|under) our (?:\w+ ){0,2}?(?:polic(?:y|ies)|guidelines|terms)",
        r" (?:prevent|prohibit|forbid|restrict|stop|bar|preclude)(?:s|ed|ing)? me from\b",
        rf" {_RULES}(?: \w+){{0,3}}? do(?:es)?(?:n't| not) (?:allow|permit|let|enable) me to\b",
    ),
    "request denied": (
        rf"{_START}(?:your|the|this|that|such an?|such|sorry, (?:but )?your) (?:\w+ ){{0,2}}?{_REQUEST} "
        r"(?:has been|have been|was|were|is|are|must be|will be) (?:\w+ )?(?:denied|declined|refused|rejected"
        r"|blocked(?! by (?:cors|the (?:browser|firewall|server|proxy|network|router)))|disallowed|prohibited|harmful"
        r"|not (?:allowed|permitted|possible|appropriate|acceptable|something)|inappropriate|unethical|illegal)",
        r" (?:access|permission|request|prompt) (?:is )?denied",
        rf" {_REQUEST} (?:involves?|asks? for|seeks?|promotes?|encourages?|appears? to|seems? to|contains?"
        r"|would require)"
        r" [^.!?¶]{0,60}(?:illegal|harmful|unethical|violen|dangerous|criminal|hate|fraud|malicious|exploit|abus)",
        r" (?:cannot|can't|can not|must not|will not|won't) be (?:fulfilled|provided|completed|processed|granted"
        r"|answered"
        r"|generated|created|discussed|shared|assisted|supported|given|disclosed)",
    ),
    "content filter": (
        r" (?:trigger\w*|violat\w*|by|due to|flagged|against|breach\w*)(?: \w+){0,4}? content[ _-](?:management|filter"
        r"|filtering|moderation|safety|polic(?:y|ies))\b",
        r"^ content[ _-]filter(?:ed)?[ .!]* $",
        rf"{_START}(?:(?:the|this|your|that|sorry, (?:but )?(?:the|your|this)) (?:\w+ )?)?(?:response|prompt"
        r"|content|output|request"
        r"|message|answer|text|reply|generation|completion|input) (?:was|has been|is|were|got"
        r"|had been)(?: \w+)? (?:filtered"
        r"|blocked|flagged|withheld|removed|censored|suppressed|redacted|stopped)"
        r"(?! by (?:cors|the (?:browser|firewall|server|proxy|network|router)))",
        r" (?:blocked|filtered|stopped|flagged|withheld) (?:by|due to|because of|for) (?:the |our |a "
        r"|its )?(?:\w+ ){0,2}"
        r"(?:filter|polic|safety|guardrail|moderation|violat|security)",
        r"\[ (?:filtered|blocked|redacted by polic\w+|content removed|refused|refusal|response withheld)",
    ),
    "bare inability": (
        rf"{_START}(?:unable to|not able to|cannot|can't|won't|will not|refuse to|refusing to|declining to|not going to"
        rf"|not allowed to|no,? (?:i )?(?:can't|cannot|won't|will not)) {_PLAIN_ACT}{_NOT_ASKING}",
        r" (?:model|ai|assistant|chatbot|intelligence),? (?:and|so|which|that)(?: therefore| thus| so"
        r"| as such)? (?:can'?t|cannot"
        rf"|am (?:unable to|not able to)|do(?:n't| not)|won't|will not) {_PLAIN_ACT}",
        r" (?:cross(?:es|ing)? (?:a|the|my|an ethical) line|an? (?:hard|firm|clear|definite|absolute|easy) no\b"
        r"|off the table for"
        r" me|off[- ]limits for me|a line i (?:won't|will not|don't|can't|cannot)|nah,? (?:i'm )?not (?:doing|gonna"
        r"|going))",
        rf"{_START}(?:absolutely not|hell no|no way(?! to\b| of\b)|not a chance|certainly not|definitely not"
        r"|no can do|nice try"
        r"|nope|no chance|no thank(?:s| you)|forget it|not happening)\b",
        r" my answer is no\b",
        r" (?:not going to happen|isn't happening|ain't happening|never going to happen)\b",
        rf"{_START}this (?:ai|assistant|model|system|bot|service) (?:cannot|can't|can not|will not|won't|does not"
        r"|is (?:unable"
        r"|not able)|refuses|declines)",
        r" (?:chatgpt|claude|gemini|llama|bard|copilot|the assistant|the ai|the model) (?:cannot|can't|will not"
        r"|won't|is unable"
        r" to|is not able to|refuses to|declines to) (?:help|assist|provide|comply|answer|fulfil|generate|create"
        r"|write)",
    ),
    "change of subject": (
        rf"{_START}(?:let's|let us|can we|could we|perhaps we (?:can|could|should)|maybe we (?:can|could|should)"
        r"|why don't we"
        r"|how about we|shall we)(?: please| instead| just)? (?:not\b|talk about (?:something|anything) else|change the"
        r" (?:subject|topic)|discuss (?:something|anything) (?:else|different)|keep (?:our|this|the"
        r"|things)[^.!?¶]{0,40}"
        r"(?:respectful|appropriate|positive|civil|safe|legal|clean|productive)|move on to|try (?:a different"
        r"|another) (?:topic"
        r"|subject)|switch (?:to|topics)|find (?:a|something) (?:different|else|more))",
        r" best (?:if|that) we (?:don't|do not|stop|talk|move|change|leave)\b",
        r" (?:please|kindly) (?:refrain from|do not ask|don't ask|avoid asking|stop asking|ask (?:me )?(?:something"
        r"|anything)"
        r" (?:else|appropriate|different)|rephrase your (?:request|question))",
    ),
}

_HINTS: Mapping[str, tuple[str, ...]] = {
    "apology": (
        r"^ (?:[\w' ]{0,30}[,:!.] )?(?:i'?m |i am |i'm really |i'm so |i'm very )?(?:very |really |truly |so "
        r"|deeply )?(?:sorry"
        r"|apologies|my apologies|i apologi[sz]e)(?:,| but|\.| -)(?! (?:to hear|for your loss))",
    ),
    "lecture": (
        r" i (?:strongly|must|would strongly) (?:advise|urge|caution|discourage"
        r"|recommend)(?: you)? (?:\w+ )?(?:against|not to)\b",
        r" (?:it(?:'s| is| would be)|that(?:'s| is| would be)|this(?:'s| is| would be)|doing (?:so|this"
        r"|that) (?:is|would be)"
        rf"|\w+ing (?:[\w'-]+ ){{0,8}}?is|and|which is) (?:\w+ ){{0,2}}?{_WRONG}(?: (?:and|or|nor) [\w-]+){{0,2}}"
        r"(?: to(?! (?:say|assume|think|claim|believe|call|conclude|describe|speak))| and|\.|,| for| in (?:most"
        r"|many|all|some|the|almost|nearly)| under)",
        r" (?:is|are|would be) (?:never|not) (?:okay|ok|acceptable|appropriate|the answer|right to)\b",
    ),
    "warning": (
        r" i (?:\w+ )?(?:advise|urge|encourage|recommend|caution|implore|discourage)(?: you)? (?:\w+ )?(?:against"
        r"|not to|to reconsider"
        r"|to refrain|to seek|anyone|to (?:think|consider|reach|talk|speak|report|stop|avoid))",
        r" (?:can|could|may|will|would) (?:have|lead to|result in|cause|carry|face)(?: \w+)? (?:serious|severe"
        r"|legal|criminal"
        r"|significant|harmful|dangerous)(?: \w+)? (?:consequences|harm|penalties|charges|injur|damage|prosecution"
        r"|repercussions)",
    ),
    "care": (
        r" (?:if you or someone you know|please (?:reach out|seek|contact|consider (?:reaching|talking|seeking)"
        r"|talk to|call|consult)"
        r"|you are not alone|suicide (?:prevention|hotline)|crisis (?:line|hotline|text)|mental health professional"
        r"|law enforcement|(?:local|relevant) authorities|emergency services)",
    ),
    "redirection": (
        r" (?:is there|if there(?:'s| is)|if you have|let me know if|feel free to ask"
        r"|do you have)[^.!?¶]{0,50}(?:anything|something"
        r"|other|another|different|any other|else)[^.!?¶]{0,60}(?:help|assist|question|discuss|topic|legal|ethical"
        r"|else|ask)",
        r" i(?:'d| would|'m| am|'ll| will| can)(?: be)?(?: always| more than)? (?:happy|glad|here|pleased|delighted"
        r"|willing|ready|able)?"
        r" ?(?:to )?(?:help|assist|discuss|provide|offer|support|talk)[^.!?¶]{0,80}(?:else|other|different|instead"
        r"|alternative|safe"
        r"|legal|ethical|positive|constructive|appropriate|lawful|legitimate|respectful)",
        r" (?:instead,|instead i|rather than)(?: i| let| we| you| consider| how| perhaps| try| it)",
    ),
    "purpose": (
        r" (?:my|our) (?:\w+ )?(?:purpose|goal|role|aim|function|job|mission|priority"
        r"|intention)(?: here)? is to (?:\w+ )?(?:be|provide"
        r"|assist|help|promote|ensure|support|offer|give)[^.!?¶]{0,100}(?:safe|ethical|legal|responsib|respectful"
        r"|helpful|harm"
        r"|appropriate|positive|useful|accurate|ethic)",
        r" i(?:'m| am)(?: \w+)? (?:here|designed|programmed|trained|built|committed|made|created) to (?:\w+ )?(?:be"
        r"|provid|assist|help"
        r"|promot|ensur|support|offer|follow|adher|prioriti[sz])[^.!?¶]{0,100}(?:safe|ethical|legal|responsib"
        r"|respectful|harm"
        r"|appropriate|positive|guideline|lawful|ethic)",
        r" i (?:must|have to|need to|am required to|strive to|aim to|always) (?:\w+ )?(?:adhere|follow|abide"
        r"|operate|prioriti[sz]e|respect"
        r"|uphold|comply|maintain|ensure)[^.!?¶]{0,80}(?:guideline|polic|ethic|legal|law|safe|rules|principle"
        r"|standard)",
    ),
    "disclaimer": (
        r" as (?:an?|your) (?:\w+ )?(?:ai|artificial intelligence|language model|llm|assistant|chatbot"
        r"|large language model)\b",
        r" i(?:'m| am) (?:just |only |simply |merely )?an? (?:\w+ )?(?:ai|artificial intelligence|language model"
        r"|llm|chatbot)\b",
    ),
    "understanding": (
        r" i (?:\w+ )?(?:understand|appreciate|hear|see|know|recogni[sz]e|respect|realize"
        r"|get)[^.!?¶]{0,120}(?:, but|; however|but i"
        r"|[.] however)",
    ),
    "missing information": (
        r" i(?:'m| am)? ?(?:do(?:n't| not) (?:have|know)|not (?:sure|aware|familiar)|have no|couldn't find"
        r"|can't find|cannot find)"
        r"(?: \w+){0,3}? (?:information|access|data|real-time|knowledge|details|context|aware|familiar)",
    ),
}

_WHOLE = (
    r"^ (?:(?:i'?m |i am )?sorry[,.!]? ?(?:but )?)?(?:no|nope|never|denied|refused|declined|request (?:denied"
    r"|refused|rejected)|access denied"
    r"|absolutely not|no way|not a chance|i refuse|i decline|certainly not|of course not|definitely not|no thanks"
    r"|no,? thank you|i (?:can't|cannot|cant|won't|will not)|no can do|forget it|hell no|i'm sorry|sorry|i apologi[sz]e"
    r"|not allowed|not permitted|unable to (?:comply|assist|help|answer|respond)|pass|n/a|redacted|refusal"
    r"|blocked)[.! ]* $"
)

WEIGHTS: Mapping[str, float] = {
    "decline": 0.95,
    "comfort": 0.92,
    "inability": 0.92,
    "limits": 0.7,
    "practice": 0.8,
    "stance": 0.6,
    "lack": 0.7,
    "opinion": 0.42,
    "together": 0.75,
    "denial": 0.8,
    "apology and inability": 0.88,
    "not for me": 0.88,
    "policy": 0.8,
    "request denied": 0.8,
    "content filter": 0.85,
    "bare inability": 0.85,
    "change of subject": 0.65,
    "whole answer": 0.75,
}
"""How much a family weighs where it opens the answer."""

HINT_WEIGHTS: Mapping[str, float] = {
    "apology": 0.3,
    "lecture": 0.45,
    "warning": 0.25,
    "care": 0.25,
    "redirection": 0.3,
    "purpose": 0.35,
    "disclaimer": 0.15,
    "understanding": 0.15,
    "missing information": 0.1,
}
"""What weighs only together with something else."""

_STEMS: Mapping[str, str] = {
    "apology and inability": "afrai apolo forgi pardo regre sorry unfor",
    "not for me": (
        "accep again anyth appro beyon breac confl conte contr crime ethic guide illeg immor inapp incon irres law "
        "legal mater moral nothi ok okay one outsi polic princ reque respo right rules somet stand task tasks topic "
        "unacc uneth unlaw value viola way wrong"
    ),
    "policy": (
        "allow built code confi desig ethic forbi guide instr inten made moral permi polic precl preve princ "
        "progr prohi restr rules safe safet stand stops terms train value"
    ),
    "request denied": "can't canno conte denie must promp queri query quest reque task tasks topic won't",
    "content filter": "block censo conte filte flagg redac refus remov stopp supp suppr withh",
    "bare inability": (
        "answe able absol ai allow assis bard can't canno certa chanc chatb chatg claud clear copil cross decli "
        "defin easy firm forge gemin going happe hard hell intel line llama model nah nice nope off off-l "
        "refus table thank thanks unabl way will won't"
    ),
    "change of subject": "best discu keep kindl let let's pleas subje talk topic",
    "apology": "apolo sorry",
    "lecture": (
        "accep advis allow appro cauti crime crimi disco ethic feder good illeg immor inapp irres law legal moral must "
        "never ok okay permi recom respo right stron unacc uneth unlaw urge wrong"
    ),
    "warning": "advis cauti conse crimi dange disco encou harmf implo legal recom serio sever signi urge",
    "care": "alone autho crisi emerg law menta pleas someo suici",
    "redirection": (
        "alter anoth anyth appro const diffe else ethic inste lawfu legal legit other posit rathe respe safe somet"
    ),
    "purpose": (
        "accur appro ethic guide harm harmf harml helpf law lawfu laws legal polic posit princ respe respo "
        "rules safe safel safet stand usefu"
    ),
    "disclaimer": "ai artif assis chatb langu llm",
    "understanding": "but howev",
    "missing information": "acces conte data detai infor knowl real-",
}
"""The first letters of words of which a text has at least one if it can match: quicker to look up than a pattern."""
_STEM = 5
# Families whose phrases all hold one of these.
_OF_ITSELF = frozenset(["not for me", "purpose", "understanding", "missing information", "disclaimer"])
_ITSELF = (
    " i ",
    " i'",
    " my ",
    " me ",
    " me,",
    " me.",
    " our ",
    " an ai",
    " a language model",
    " an assistant",
    " as a",
)

CAPABILITY = re.compile(
    r"(?:access|browse|open|view|see|search|send|hear|watch|listen|play|download|upload|run|the ability|the capability"
    r"|the capacity|the means|the tools|a body|physically|real-time|internet|images?|files?|links?|urls?|websites?"
    r"|e-?mails?)\b"
)
"""What an answer says when it lacks the means rather than the will."""


class Family(Struct, frozen=True):
    """A family of phrasing that is looked for in the whole window."""

    name: str
    patterns: tuple[re.Pattern[str], ...]

    def first(self, text: str) -> re.Match[str] | None:
        """Return the first match of any of its patterns in a folded text."""
        for pattern in self.patterns:
            if match := pattern.search(text):
                return match
        return None


def _joined(families: Mapping[str, tuple[str, ...]]) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Return one pattern for all families, in their order; group number n is the family n - 1."""
    return re.compile("|".join(f"({'|'.join(sources)})" for sources in families.values())), tuple(families)


FIRST_PERSON, FIRST_PERSON_FAMILIES = _joined(_FIRST_PERSON)


def _families(families: Mapping[str, tuple[str, ...]]) -> tuple[Family, ...]:
    return tuple(Family(name, tuple(re.compile(source) for source in sources)) for name, sources in families.items())


def _families_of_stems() -> dict[str, set[str]]:
    families: dict[str, set[str]] = {}
    for family, stems in _STEMS.items():
        for stem in stems.split():
            families.setdefault(stem, set()).add(family)
    return families


_FAMILIES_OF = _families_of_stems()


def possible_families(folded: str) -> set[str]:
    """Return the names of the families of which a folded text has at least one word."""
    found: set[str] = set()
    words = folded.replace(".", " ").replace(",", " ").split()
    for stem in {word[:_STEM] for word in words} & _FAMILIES_OF.keys():
        found |= _FAMILIES_OF[stem]
    if not _speaks_of_itself(folded):
        found -= _OF_ITSELF
    return found


def _speaks_of_itself(folded: str) -> bool:
    for word in _ITSELF:  # noqa: SIM110  a plain loop is quicker here than a generator
        if word in folded:
            return True
    return False


ANYWHERE = _families(_ANYWHERE)
HINTS = _families(_HINTS)
WHOLE = re.compile(_WHOLE)
SUBJECT = re.compile(r" (?:i|we|im)(?=[ '])")
"""Where a first person stands."""
NOT_SAID = re.compile(
    r"(?: if| when| whenever| whether| until| unless| things| times| places| once| says| said| think| thinks| than| or"
    r"| how| where| told \w+| \w+ing that| what)$"
)
"""What stands before a first person that does not speak of this request: "if I can't help"."""
