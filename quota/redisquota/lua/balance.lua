-- ARGV: keep (ms). Returns {held, reserved, charged, name, spent, name, spent...}.
local num = function(x) return string.format('%.17g', x) end
local h = call('HGET', H, 'h')
if not h then return { 0, '0', '0' } end
local charged, due, fade, set = unpick('>dddd', h)
while now >= due do
  tend(ARGV[1], charged, due, fade, set)
  charged, due, fade, set = unpick('>dddd', call('HGET', H, 'h'))
end
local reserved, res = 0, {}
local all = call('HGETALL', H)
for i = 1, #all, 2 do
  local k, v = all[i], all[i + 1]
  local kind = string.sub(k, 1, 2)
  if kind == 'r:' and string.sub(v, 1, 1) == 'L' then
    local cost = unpick('>d', v, 2)
    reserved = reserved + cost
  elseif kind == 'w:' then
    local s = drain(v)
    res[#res + 1] = string.sub(k, 3)
    res[#res + 1] = num(s)
  end
end
return { call('ZCOUNT', Z, '-inf', FAR), num(reserved), num(charged), unpack(res) }
