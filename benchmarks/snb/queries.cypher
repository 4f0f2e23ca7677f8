// The reads of LDBC SNB Interactive for ladybug, over the tables of tables.cypher.

// name: is1
MATCH (p:Person {id: $personId})-[:LivesIn]->(c:City)
RETURN p.firstName, p.lastName, p.birthday, p.locationIP, p.browserUsed, c.id, p.gender, p.creationDate;

// name: is2
MATCH (m:Message)-[:HasCreator]->(p:Person {id: $personId})
WITH m ORDER BY m.creationDate DESC, m.id DESC LIMIT 10
MATCH (m)-[:ReplyOf*0..30]->(post:Message {kind: 'post'})-[:HasCreator]->(a:Person)
RETURN m.id, coalesce(m.content, m.imageFile), m.creationDate, post.id, a.id, a.firstName, a.lastName
ORDER BY m.creationDate DESC, m.id DESC;

// name: is3
MATCH (p:Person {id: $personId})-[k:Knows]-(f:Person)
RETURN f.id, f.firstName, f.lastName, k.creationDate ORDER BY k.creationDate DESC, f.id;

// name: is4
MATCH (m:Message {id: $messageId}) RETURN m.creationDate, coalesce(m.content, m.imageFile);

// name: is5
MATCH (m:Message {id: $messageId})-[:HasCreator]->(p:Person) RETURN p.id, p.firstName, p.lastName;

// name: is6
MATCH (m:Message {id: $messageId})-[:ReplyOf*0..30]->(post:Message)<-[:ContainerOf]-(f:Forum)-[:HasModerator]->(p:Person)
RETURN f.id, f.title, p.id, p.firstName, p.lastName;

// name: is7
MATCH (a:Person)<-[:HasCreator]-(m:Message {id: $messageId})<-[:ReplyOf]-(r:Message)-[:HasCreator]->(p:Person)
RETURN r.id, coalesce(r.content, r.imageFile), r.creationDate, p.id, p.firstName, p.lastName,
    EXISTS { MATCH (a)-[:Knows]-(p) }
ORDER BY r.creationDate DESC, p.id, r.id;

// name: ic1
MATCH (p:Person {id: $personId})-[k:Knows* SHORTEST 1..3]-(f:Person)
WHERE f.firstName = $firstName AND f.id <> $personId
WITH f, length(k) AS distance ORDER BY distance, f.lastName, f.id LIMIT 20
MATCH (f)-[:LivesIn]->(c:City)
OPTIONAL MATCH (f)-[s:StudyAt]->(u:University)-[:UniversityIsIn]->(uc:City)
WITH f, distance, c, list_sort(collect(CASE WHEN u.name IS NULL THEN NULL ELSE concat(u.name, ', ', CAST(s.classYear AS STRING), ', ', uc.name) END)) AS studies
OPTIONAL MATCH (f)-[w:WorkAt]->(o:Company)-[:CompanyIsIn]->(oc:Country)
WITH f, distance, c, studies, list_sort(collect(CASE WHEN o.name IS NULL THEN NULL ELSE concat(o.name, ', ', CAST(w.workFrom AS STRING), ', ', oc.name) END)) AS jobs
RETURN f.id, f.lastName, distance, f.birthday, f.creationDate, f.gender, f.browserUsed, f.locationIP, f.emails,
    f.languages, c.name, studies, jobs
ORDER BY distance, f.lastName, f.id;

// name: ic2
MATCH (p:Person {id: $personId})-[:Knows]-(f:Person)<-[:HasCreator]-(m:Message)
WHERE m.creationDate <= $maxDate
RETURN f.id, f.firstName, f.lastName, m.id, coalesce(m.content, m.imageFile), m.creationDate
ORDER BY m.creationDate DESC, m.id LIMIT 20;

// name: ic3
MATCH (p:Person {id: $personId})-[:Knows* SHORTEST 1..2]-(f:Person)-[:LivesIn]->(:City)-[:CityIsPartOf]->(h:Country)
WHERE f.id <> $personId AND h.name <> $countryXName AND h.name <> $countryYName
WITH f
MATCH (f)<-[:HasCreator]-(m:Message)-[:IsLocatedIn]->(a:Country)
WHERE m.creationDate >= $startDate AND m.creationDate < $endDate AND (a.name = $countryXName OR a.name = $countryYName)
WITH f, sum(CASE WHEN a.name = $countryXName THEN 1 ELSE 0 END) AS x,
    sum(CASE WHEN a.name = $countryYName THEN 1 ELSE 0 END) AS y
WHERE x > 0 AND y > 0
RETURN f.id, f.firstName, f.lastName, x, y, x + y ORDER BY x DESC, f.id LIMIT 20;

// name: ic4
MATCH (p:Person {id: $personId})-[:Knows]-(f:Person)<-[:HasCreator]-(m:Message {kind: 'post'})-[:HasTag]->(t:Tag)
WHERE m.creationDate < $endDate
WITH t, sum(CASE WHEN m.creationDate >= $startDate THEN 1 ELSE 0 END) AS posts,
    sum(CASE WHEN m.creationDate < $startDate THEN 1 ELSE 0 END) AS earlier
WHERE earlier = 0
RETURN t.name, posts ORDER BY posts DESC, t.name LIMIT 10;

// name: ic5
MATCH (p:Person {id: $personId})-[:Knows* SHORTEST 1..2]-(f:Person)<-[j:HasMember]-(forum:Forum)
WHERE f.id <> $personId AND j.joinDate > $minDate
OPTIONAL MATCH (f)<-[:HasCreator]-(post:Message)<-[:ContainerOf]-(forum)
RETURN forum.title, forum.id, count(post) AS posts ORDER BY posts DESC, forum.id LIMIT 20;

// name: ic6
MATCH (p:Person {id: $personId})-[:Knows* SHORTEST 1..2]-(f:Person)
WHERE f.id <> $personId
WITH f
MATCH (f)<-[:HasCreator]-(post:Message {kind: 'post'})-[:HasTag]->(known:Tag {name: $tagName})
WITH post
MATCH (post)-[:HasTag]->(t:Tag) WHERE t.name <> $tagName
RETURN t.name, count(post) AS posts ORDER BY posts DESC, t.name LIMIT 10;

// name: ic7
MATCH (p:Person {id: $personId})<-[:HasCreator]-(m:Message)<-[l:Likes]-(f:Person)
WITH p, f, max(l.creationDate) AS liked
MATCH (p)<-[:HasCreator]-(m:Message)<-[l:Likes]-(f) WHERE l.creationDate = liked
WITH p, f, liked, min(m.id) AS first
MATCH (m:Message) WHERE m.id = first
RETURN f.id, f.firstName, f.lastName, liked, m.id, coalesce(m.content, m.imageFile),
    CAST(floor((to_epoch_ms(liked) - to_epoch_ms(m.creationDate)) / 60000) AS INT64),
    NOT EXISTS { MATCH (p)-[:Knows]-(f) }
ORDER BY liked DESC, f.id LIMIT 20;

// name: ic8
MATCH (p:Person {id: $personId})<-[:HasCreator]-(m:Message)<-[:ReplyOf]-(r:Message)-[:HasCreator]->(a:Person)
RETURN a.id, a.firstName, a.lastName, r.creationDate, r.id, coalesce(r.content, r.imageFile)
ORDER BY r.creationDate DESC, r.id LIMIT 20;

// name: ic9
MATCH (p:Person {id: $personId})-[:Knows* SHORTEST 1..2]-(f:Person)<-[:HasCreator]-(m:Message)
WHERE f.id <> $personId AND m.creationDate < $maxDate
RETURN f.id, f.firstName, f.lastName, m.id, coalesce(m.content, m.imageFile), m.creationDate
ORDER BY m.creationDate DESC, m.id LIMIT 20;

// name: ic10
MATCH (p:Person {id: $personId})-[k:Knows* SHORTEST 1..2]-(f:Person)-[:LivesIn]->(c:City)
WHERE length(k) = 2 AND f.id <> $personId
    AND ((date_part('month', f.birthday) = $month AND date_part('day', f.birthday) >= 21)
        OR (date_part('month', f.birthday) = $month % 12 + 1 AND date_part('day', f.birthday) < 22))
RETURN f.id, f.firstName, f.lastName,
    2 * COUNT { MATCH (f)<-[:HasCreator]-(post:Message {kind: 'post'})
                WHERE EXISTS { MATCH (post)-[:HasTag]->(:Tag)<-[:HasInterest]-(p) } }
        - COUNT { MATCH (f)<-[:HasCreator]-(post:Message {kind: 'post'}) } AS score,
    f.gender, c.name
ORDER BY score DESC, f.id LIMIT 10;

// name: ic11
MATCH (p:Person {id: $personId})-[:Knows* SHORTEST 1..2]-(f:Person)-[w:WorkAt]->(o:Company)-[:CompanyIsIn]->(c:Country)
WHERE f.id <> $personId AND c.name = $countryName AND w.workFrom < $workFromYear
RETURN f.id, f.firstName, f.lastName, o.name, w.workFrom ORDER BY w.workFrom, f.id, o.name DESC LIMIT 10;

// name: ic12
MATCH (base:TagClass {name: $tagClassName})<-[:IsSubclassOf*0..10]-(c:TagClass)<-[:HasType]-(t:Tag)
WITH collect(t.id) AS tags
MATCH (p:Person {id: $personId})-[:Knows]-(f:Person)<-[:HasCreator]-(r:Message)-[:ReplyOf]->(m:Message {kind: 'post'})-[:HasTag]->(t:Tag)
WHERE t.id IN tags
RETURN f.id, f.firstName, f.lastName, list_sort(collect(DISTINCT t.name)), count(DISTINCT r.id) AS replies
ORDER BY replies DESC, f.id LIMIT 20;

// name: ic13
MATCH (a:Person {id: $person1Id}), (b:Person {id: $person2Id})
OPTIONAL MATCH (a)-[k:Knows* SHORTEST 1..20]-(b)
RETURN coalesce(length(k), -1);

// name: ic14
MATCH (a:Person {id: $person1Id})-[k:Knows* ALL SHORTEST 1..20]-(b:Person {id: $person2Id})
WITH list_concat(list_concat([a.id], properties(nodes(k), 'id')), [b.id]) AS path
UNWIND range(1, size(path) - 1) AS hop
MATCH (x:Person), (y:Person) WHERE x.id = path[hop] AND y.id = path[hop + 1]
RETURN CAST(path AS STRING[]), sum(
    1.0 * COUNT { MATCH (x)<-[:HasCreator]-(:Message)-[:ReplyOf]->(:Message {kind: 'post'})-[:HasCreator]->(y) }
    + 1.0 * COUNT { MATCH (y)<-[:HasCreator]-(:Message)-[:ReplyOf]->(:Message {kind: 'post'})-[:HasCreator]->(x) }
    + 0.5 * COUNT { MATCH (x)<-[:HasCreator]-(:Message)-[:ReplyOf]->(:Message {kind: 'comment'})-[:HasCreator]->(y) }
    + 0.5 * COUNT { MATCH (y)<-[:HasCreator]-(:Message)-[:ReplyOf]->(:Message {kind: 'comment'})-[:HasCreator]->(x) }
) AS weight
ORDER BY weight DESC;
