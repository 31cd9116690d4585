-- ARGV: keep (ms); used and known in one string; names; "h"; "r:<id>"; "w:<name>"
-- of each window; then the rate of each. With known = 1 an unknown id is left
-- alone, else it is charged all of used. Returns 0.
local keep, names, id, n = ARGV[1], ARGV[3], ARGV[5], (#ARGV - 5) / 2
if #ARGV[2] ~= 16 then return { 6, 0, 0 } end
local used, known = unpick('>dd', ARGV[2])
if not ok(used, 0) then return { 6, 0, 0 } end

local v = call('HMGET', H, unpack(ARGV, 4, 5 + n))
local charged, due, fade, set = head(v[1])
if now >= due or now >= fade then
  tend(keep, charged, due, fade, set)
  v = call('HMGET', H, unpack(ARGV, 4, 5 + n))
  charged, due, fade, set = head(v[1])
end

local state, taken = '-', 0
if v[2] then state = string.sub(v[2], 1, 1) end
if state == 'S' or (state == '-' and known == 1) then return 0 end

local out = { 'h', '', id, 'S' }
if state ~= '-' then
  taken = unpick('>d', v[2], 2)
  names = string.sub(v[2], 26)
end
if names == ARGV[3] then
  for k = 1, n do
    local s, a, r = drain(v[2 + k])
    if state == '-' then r = unpick('>d', ARGV[5 + n + k]) end
    s = s + (used - taken)
    if s < 0 then s = 0 end
    out[3 + 2 * k], out[4 + 2 * k] = ARGV[5 + k], pack('>ddd', s, a, r)
  end
else
  for w in string.gmatch(names, '%S+') do
    local s, a, r = drain(call('HGET', H, w))
    s = s + (used - taken)
    if s < 0 then s = 0 end
    out[#out + 1] = w
    out[#out + 1] = pack('>ddd', s, a, r)
  end
end
charged = charged + used
if state == 'E' then charged = charged - taken end
call('ZADD', Z, FAR + now + REMEMBER, id)
if now - set > 600000000 then
  set = now
  out[2] = pack('>dddd', charged, due, fade, set)
  call('HSET', H, unpack(out))
  call('PEXPIRE', H, keep)
  call('PEXPIRE', Z, keep)
else
  out[2] = pack('>dddd', charged, due, fade, set)
  call('HSET', H, unpack(out))
end
return 0
